// SPDX-License-Identifier: Apache-2.0
// Of a build that computes on the host; core/memory/cuda/ has that of a GPU.
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
