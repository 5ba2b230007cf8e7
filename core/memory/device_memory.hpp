// SPDX-License-Identifier: Apache-2.0
// The device as the operating system has it: which one is this rank's, and how much memory it has
// free. On a CPU-only build there is none apart from the host.
#pragma once

#include <optional>
#include <string>

#include <core/error.hpp>
#include <core/memory/budget.hpp>

namespace shardmark {

/// The build computes on a GPU, and there is none.
struct DeviceError : Error {
  explicit DeviceError(const std::string& what) : Error(ExitStatus::usage, what) {}
};

/// Which device the rank of number `local_rank` on its node computes on: one each, in turn; -1: the
/// host. Local; before Kokkos is initialised. Throws DeviceError where a GPU is needed and none is
/// there.
int device_for(int local_rank);

/// What the current device has free, shared by those of the node's ranks that it is the device of.
/// Empty where the device's memory is the host's. Local.
std::optional<FoundMemory> find_device_memory(int ranks_per_node);

/// What its driver says of the current device's memory.
struct DeviceUse {
  std::int64_t bytes = 0;  // in use, by all processes on it
  int ranks = 1;           // of the node that share it
};
/// Empty where the device's memory is the host's. Local.
std::optional<DeviceUse> device_memory_in_use(int ranks_per_node);

}  // namespace shardmark
