// SPDX-License-Identifier: Apache-2.0
// Compiled in, not called in the library: its builds use the oldest vector instructions only.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <io/checkpoint/checksum.hpp>

namespace shardmark {

std::uint64_t xxh3(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

}  // namespace shardmark
