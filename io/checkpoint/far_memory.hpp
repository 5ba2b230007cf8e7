// SPDX-License-Identifier: Apache-2.0
// Memory that the host does not reach itself: a GPU's. Checkpoints are of the host; states that lie
// there come and go piece by piece, so that no rank needs room for all of them.
#pragma once

#include <cstdint>

namespace shardmark {

/// How bytes get from there and to there. Each returns when they are where they should be; what was
/// launched on that memory before is done first.
struct FarMemory {
  void (*fetch)(void* to_host, const void* from, std::int64_t bytes);
  void (*put)(void* to, const void* from_host, std::int64_t bytes);
};

}  // namespace shardmark
