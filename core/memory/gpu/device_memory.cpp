// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/gpu_runtime.hpp>
#include <core/memory/device_memory.hpp>
#include <core/text.hpp>

namespace shardmark {
namespace {

void require(device::Status code, const char* call) {
  if (code != device::success)
    throw MemoryError(fmt::format("{}: {}", call, SHARDMARK_GPU(GetErrorString)(code)));
}

int device_count() {
  int devices = 0;
  require(SHARDMARK_GPU(GetDeviceCount)(&devices),
          SHARDMARK_TEXT_OF(SHARDMARK_GPU(GetDeviceCount)));
  return devices;
}

/// How many ranks of the node use the current device, given that ranks take the devices in turn.
int ranks_per_device(int ranks_per_node) {
  const int devices = device_count();
  return std::max(1, (ranks_per_node + devices - 1) / devices);
}

struct Sizes {
  std::int64_t free = 0, all = 0;
};

Sizes device_sizes() {
  std::size_t free_bytes = 0, all_bytes = 0;
  require(SHARDMARK_GPU(MemGetInfo)(&free_bytes, &all_bytes),
          SHARDMARK_TEXT_OF(SHARDMARK_GPU(MemGetInfo)));
  return {static_cast<std::int64_t>(free_bytes), static_cast<std::int64_t>(all_bytes)};
}

}  // namespace

int device_for(int local_rank) {
  int devices = 0;
  const device::Status code = SHARDMARK_GPU(GetDeviceCount)(&devices);
  if (code != device::success || devices == 0)
    throw DeviceError(
        fmt::format("no GPU is visible to this process ({}), but this build computes on a GPU: "
                    "check {}, the GPUs that the job was given, and the driver; "
                    "`shardmark plan` needs no GPU",
                    code == device::success ? "0 devices" : SHARDMARK_GPU(GetErrorString)(code),
                    device::visible_devices));
  return local_rank % devices;
}

std::optional<FoundMemory> find_device_memory(int ranks_per_node) {
  const int ranks = ranks_per_device(ranks_per_node);
  return FoundMemory{
      device_sizes().free / ranks,
      fmt::format("{} of the device ({})", SHARDMARK_TEXT_OF(SHARDMARK_GPU(MemGetInfo)),
                  plural(ranks, "rank"))};
}

std::optional<DeviceUse> device_memory_in_use(int ranks_per_node) {
  const Sizes sizes = device_sizes();
  return DeviceUse{sizes.all - sizes.free, ranks_per_device(ranks_per_node)};
}

}  // namespace shardmark
