// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <core/error.hpp>
#include <core/memory/device_memory.hpp>

namespace shardmark {
namespace {

void require(cudaError_t code, const char* call) {
  if (code != cudaSuccess)
    throw MemoryError(fmt::format("{}: {}: is there a GPU, and a driver for this CUDA?", call,
                                  cudaGetErrorString(code)));
}

int device_count() {
  int devices = 0;
  require(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  return devices;
}

}  // namespace

int device_for(int local_rank) {
  const int devices = device_count();
  if (devices == 0)
    throw MemoryError(
        "no GPU is visible to this process: this build computes on one: look at "
        "CUDA_VISIBLE_DEVICES, and at the job's share of GPUs");
  return local_rank % devices;
}

std::optional<FoundMemory> find_device_memory(int ranks_per_node) {
  const int devices = device_count();
  std::size_t free_bytes = 0, all_bytes = 0;
  require(cudaMemGetInfo(&free_bytes, &all_bytes), "cudaMemGetInfo");
  const int sharers = std::max(1, (ranks_per_node + devices - 1) / devices);
  return FoundMemory{
      static_cast<std::int64_t>(free_bytes) / sharers,
      fmt::format("cudaMemGetInfo of the device ({} rank{})", sharers, sharers == 1 ? "" : "s")};
}

}  // namespace shardmark
