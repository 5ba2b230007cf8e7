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

constexpr std::int64_t checksum_blocks(std::int64_t elems) {
  return (elems + checksum_block_elems - 1) / checksum_block_elems;
}

std::uint64_t xxh3(std::span<const std::byte> bytes);
inline std::uint64_t xxh3(std::span<const std::uint64_t> values) {
  return xxh3(std::as_bytes(values));
}

/// The same of bytes that are not there yet: `fill(at, piece)` puts a multiple of 8 bytes, or the
/// last ones, to `bytes[at]` on, piece after piece, and each is hashed while it is in cache.
using FillPiece = std::function<void(std::int64_t at, std::span<std::byte> piece)>;
std::uint64_t xxh3_while_filled(std::span<std::byte> bytes, const FillPiece& fill);

}  // namespace shardmark
