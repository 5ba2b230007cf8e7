// SPDX-License-Identifier: Apache-2.0
// Checksums of what is stored: XXH3 (64 bits, seed 0) of each block of a part, and one over those.
// A reader of a few elements verifies the blocks that they lie in, and no more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace shardmark {

/// A block: so many elements of a dataset, counted from the start of a rank's part; the last is
/// shorter. 1 MiB of fp32, which stays in a core's cache between hashing and copying.
inline constexpr std::int64_t checksum_block_elems = std::int64_t{1} << 18;

/// The number of blocks that `elems` elements fill; the last one may be shorter.
constexpr std::int64_t checksum_blocks(std::int64_t elems) {
  return (elems + checksum_block_elems - 1) / checksum_block_elems;
}

/// The 64-bit XXH3 hash of the bytes.
std::uint64_t xxh3(std::span<const std::byte> bytes);
inline std::uint64_t xxh3(std::span<const std::uint64_t> values) {
  return xxh3(std::as_bytes(values));
}

/// The same of `bytes` bytes that are fetched piece after piece, each hashed while it is in cache:
/// `fetch(at, bytes)` says where a piece is now; it is not looked at after the next call.
using FetchPiece = std::function<const std::byte*(std::int64_t at, std::int64_t bytes)>;
std::uint64_t xxh3_while_fetched(std::int64_t bytes, const FetchPiece& fetch);

/// Bytes of a piece, but for the last: a multiple of any element's.
inline constexpr std::int64_t checksum_piece_bytes = std::int64_t{256} << 10;

}  // namespace shardmark
