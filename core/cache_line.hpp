// SPDX-License-Identifier: Apache-2.0
// The size of a cache line, to which buffers and their parts are aligned.
#pragma once

#include <cstdint>

namespace shardmark {

inline constexpr std::int64_t cache_line_bytes = 64;

/// What different cores write is at least so far apart: processors fetch lines in pairs.
inline constexpr std::int64_t apart_bytes = 2 * cache_line_bytes;

}  // namespace shardmark
