// SPDX-License-Identifier: Apache-2.0
// How a collective is split into rounds through a shared window (comm/shm/shm_window.hpp).
#pragma once

#include <cstdint>
#include <optional>

#include <comm/communicator.hpp>

namespace shardmark {

/// Up to this size an all_reduce is one round in which every rank computes the whole sum. The ranks
/// then wait for each other once instead of twice.
inline constexpr std::int64_t shm_small_bytes = 4096;

/// A piece that is read directly is this many times as long as a buffer.
inline constexpr std::int64_t shm_direct_buffers = 8;

/// The rounds of one collective.
struct ShmRounds {
  std::uint64_t rounds = 0;      // 0 for one rank or no elements, which needs only a copy
  std::int64_t part_elems = 0;   // what is split: a shard (all_gather, reduce_scatter) or the array
  std::int64_t piece_elems = 0;  // elements of the part per round
  bool small = false;            // an all_reduce in which every rank computes the whole sum
  bool direct = false;           // an all_gather or broadcast that does not use the buffers
  /// Whether a round has the middle stage, in which each rank reduces its share of the piece.
  bool reduces_by_share = false;
};

/// The limits that decide on the rounds: the bytes of a buffer, at least 8 per rank; and the bytes
/// of one rank from which on the other ranks read its memory directly, empty if they may not.
struct ShmLimits {
  std::int64_t buffer_bytes = 0;
  std::optional<std::int64_t> direct_bytes;
};

/// The rounds of `c` in a group of `size` ranks. Pure, and the same on all ranks because it reads
/// no addresses.
ShmRounds plan_shm_rounds(const Collective& c, int size, const ShmLimits& means);

}  // namespace shardmark
