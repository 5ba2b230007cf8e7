// SPDX-License-Identifier: Apache-2.0
// The version for builds that compute on the host; core/memory/gpu/ has the one for GPUs.
#include <core/memory/device_memory.hpp>

namespace shardmark {

int device_for(int) {
  return -1;
}

std::optional<FoundMemory> find_device_memory(int) {
  return std::nullopt;
}

std::optional<DeviceUse> device_memory_in_use(int) {
  return std::nullopt;
}

}  // namespace shardmark
