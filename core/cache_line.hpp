// SPDX-License-Identifier: Apache-2.0
// The size of a cache line, to which buffers and their parts are aligned. It is the same on all
// processors, because plans contain sizes that are rounded to it and have to be equal everywhere.
#pragma once

#include <cstdint>

namespace shardmark {

inline constexpr std::int64_t cache_line_bytes = 64;

/// What different cores write is at least so far apart. Processors of x86 fetch lines of 64 bytes
/// in pairs; the longest line of an ARM processor is that of A64FX, 256 bytes.
#if defined(__aarch64__)
inline constexpr std::int64_t apart_bytes = 256;
#else
inline constexpr std::int64_t apart_bytes = 2 * cache_line_bytes;
#endif

}  // namespace shardmark
