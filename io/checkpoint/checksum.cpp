// SPDX-License-Identifier: Apache-2.0
// The hash is compiled in rather than called in the library, whose builds use only the oldest
// vector instructions.
#define XXH_INLINE_ALL
#include <algorithm>

#include <xxhash.h>

#include <io/checkpoint/checksum.hpp>

namespace shardmark {

std::uint64_t xxh3(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t xxh3_while_fetched(std::int64_t bytes, const FetchPiece& fetch) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  (void)XXH3_64bits_reset(&state);  // fails only for a null pointer
  for (std::int64_t at = 0; at < bytes; at += checksum_piece_bytes) {
    const std::int64_t n = std::min(checksum_piece_bytes, bytes - at);
    (void)XXH3_64bits_update(&state, fetch(at, n), static_cast<std::size_t>(n));
  }
  return XXH3_64bits_digest(&state);
}

}  // namespace shardmark
