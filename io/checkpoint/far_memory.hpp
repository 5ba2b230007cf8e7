// SPDX-License-Identifier: Apache-2.0
// Memory that the host cannot access directly, such as that of a GPU. Checkpoints are written and
// read by the host. States in such memory are copied piece by piece, so that no rank needs host
// memory for all of them.
#pragma once

#include <cstdint>
#include <cstring>

namespace shardmark {

/// Functions that copy bytes from and to that memory. Each returns when the copy is complete; work
/// that was launched on that memory before is finished first.
struct FarMemory {
  void (*fetch)(void* to_host, const void* from, std::int64_t bytes);
  void (*put)(void* to, const void* from_host, std::int64_t bytes);
};

/// Copies `bytes` bytes to host memory from `from`, which lies in `far`, or in host memory if `far`
/// is null.
inline void fetch(const FarMemory* far, void* to, const void* from, std::int64_t bytes) {
  if (far != nullptr) return far->fetch(to, from, bytes);
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}
/// Copies `bytes` bytes from host memory to `to`, which lies in `far`, or in host memory if `far`
/// is null.
inline void put(const FarMemory* far, void* to, const void* from, std::int64_t bytes) {
  if (far != nullptr) return far->put(to, from, bytes);
  std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

}  // namespace shardmark
