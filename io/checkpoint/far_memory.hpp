// SPDX-License-Identifier: Apache-2.0
// Memory that the host cannot access directly, such as that of a GPU. Checkpoints are written and
// read by the host. States in such memory are copied piece by piece, so that no rank needs host
// memory for all of them.
#pragma once

#include <cstdint>

namespace shardmark {

/// Functions that copy bytes from and to that memory. Each returns when the copy is complete; work
/// that was launched on that memory before is finished first.
struct FarMemory {
  void (*fetch)(void* to_host, const void* from, std::int64_t bytes);
  void (*put)(void* to, const void* from_host, std::int64_t bytes);
};

}  // namespace shardmark
