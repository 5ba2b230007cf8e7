// SPDX-License-Identifier: Apache-2.0
// Compiled in, not called in the library: its builds use the oldest vector instructions only.
#define XXH_INLINE_ALL
#include <algorithm>

#include <xxhash.h>

#include <io/checkpoint/checksum.hpp>

namespace shardmark {
namespace {

// Stays in a core's own cache between being filled and being hashed: a third faster than by the
// block.
constexpr std::size_t cached_bytes = std::size_t{256} << 10;

}  // namespace

std::uint64_t xxh3(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::uint64_t xxh3_while_filled(std::span<std::byte> bytes, const FillPiece& fill) {
  XXH3_state_t state;
  XXH3_INITSTATE(&state);
  (void)XXH3_64bits_reset(&state);  // fails of a null pointer only
  for (std::size_t at = 0; at < bytes.size(); at += cached_bytes) {
    const auto piece = bytes.subspan(at, std::min(cached_bytes, bytes.size() - at));
    fill(static_cast<std::int64_t>(at), piece);
    (void)XXH3_64bits_update(&state, piece.data(), piece.size());
  }
  return XXH3_64bits_digest(&state);
}

}  // namespace shardmark
