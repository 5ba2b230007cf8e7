// SPDX-License-Identifier: Apache-2.0
// How a collective is cut into rounds through a shared window (comm/shm_window.hpp).
#pragma once

#include <cstdint>

#include <comm/communicator.hpp>

namespace shardmark {

/// Up to here an all_reduce is one round in which every rank sums everything for itself: one wait
/// for the others instead of two.
inline constexpr std::int64_t shm_small_bytes = 4096;

struct ShmCut {
  std::uint64_t rounds = 0;      // 0: one rank, or no elements; a copy
  std::int64_t part_elems = 0;   // what is cut: a shard (all_gather, reduce_scatter) or the array
  std::int64_t piece_elems = 0;  // of it, a round
  bool small = false;            // an all_reduce that every rank sums for itself
  /// Whether a round has the middle stage, in which each rank reduces its share of the piece.
  bool reduces_by_share = false;
};

/// Pure; the same on all ranks, since it looks at no address. A buffer holds at least 8 bytes of
/// each rank.
ShmCut shm_cut(const Collective& c, int size, std::int64_t buffer_bytes);

}  // namespace shardmark
