// SPDX-License-Identifier: Apache-2.0
// Checksums of stored data: XXH3 (64 bits, seed 0) of each block of a part, and one checksum over
// those. A reader of a few elements verifies only the blocks that contain them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace shardmark {

/// The elements of a block, counted from the start of a rank's part; the last block is shorter. A
/// block is 1 MiB of fp32, which stays in a core's cache between hashing and copying.
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

/// The same for `bytes` bytes that are fetched piece by piece, each hashed while it is in cache.
/// `fetch(at, bytes)` returns the address of a piece, which is valid until the next call.
using FetchPiece = std::function<const std::byte*(std::int64_t at, std::int64_t bytes)>;
std::uint64_t xxh3_while_fetched(std::int64_t bytes, const FetchPiece& fetch);

/// The bytes of a piece, except the last one: a multiple of the size of any element type.
inline constexpr std::int64_t checksum_piece_bytes = std::int64_t{256} << 10;

}  // namespace shardmark
