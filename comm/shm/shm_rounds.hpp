// SPDX-License-Identifier: Apache-2.0
// How a collective is cut into rounds through a shared window (comm/shm/shm_window.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include <comm/communicator.hpp>

namespace shardmark {

/// Up to here an all_reduce is one round in which every rank sums everything for itself: one wait
/// for the others instead of two.
inline constexpr std::int64_t shm_small_bytes = 4096;

/// From here on what a rank gives is read by the others where it lies, if the system lets them:
/// one copy instead of two, but by a system call.
inline constexpr std::int64_t default_shm_direct_bytes = std::int64_t{64} << 10;
/// Pieces that are read where they lie have the size of so many buffers.
inline constexpr std::int64_t shm_direct_buffers = 8;

struct ShmCut {
  std::uint64_t rounds = 0;      // 0: one rank, or no elements; a copy
  std::int64_t part_elems = 0;   // what is cut: a shard (all_gather, reduce_scatter) or the array
  std::int64_t piece_elems = 0;  // of it, a round
  bool small = false;            // an all_reduce that every rank sums for itself
  bool direct = false;           // an all_gather or broadcast that passes the buffers by
  /// Whether a round has the middle stage, in which each rank reduces its share of the piece.
  bool reduces_by_share = false;
};

/// What is at hand: the bytes of a buffer, at least 8 for each rank; and from how many bytes of one
/// rank on the others read its memory where it lies, nothing where they may not.
struct ShmMeans {
  std::int64_t buffer_bytes = 0;
  std::optional<std::int64_t> direct_bytes;
};

/// Pure; the same on all ranks, since it looks at no address.
ShmCut shm_cut(const Collective& c, int size, const ShmMeans& means);

}  // namespace shardmark
