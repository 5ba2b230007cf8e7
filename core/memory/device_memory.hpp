// SPDX-License-Identifier: Apache-2.0
// The accelerator as its driver reports it: which device a rank computes on and how much of its
// memory is free or in use. A CPU-only build has no device memory apart from the host's.
#pragma once

#include <optional>
#include <string>

#include <core/error.hpp>
#include <core/memory/budget.hpp>

namespace shardmark {

/// Thrown by a GPU build that finds no GPU.
struct DeviceError : Error {
  explicit DeviceError(const std::string& what) : Error(ExitStatus::usage, what) {}
};

/// The number of the device that the rank with number `local_rank` on its node computes on. Ranks
/// take the devices of the node in turn. Returns -1 on a CPU-only build. Not collective; call it
/// before Kokkos is initialised. Throws DeviceError when a GPU build finds no GPU.
int device_for(int local_rank);

/// The free memory of the current device, divided by the ranks of the node that share this device.
/// Empty on a CPU-only build. Not collective. Throws MemoryError when the CUDA runtime fails.
std::optional<FoundMemory> find_device_memory(int ranks_per_node);

/// How much of the current device's memory is in use.
struct DeviceUse {
  std::int64_t bytes = 0;  // in use by all processes on the device
  int ranks = 1;           // the ranks of the node that share the device
};
/// Empty on a CPU-only build. Not collective. Throws MemoryError when the CUDA runtime fails.
std::optional<DeviceUse> device_memory_in_use(int ranks_per_node);

}  // namespace shardmark
