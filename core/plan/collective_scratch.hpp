// SPDX-License-Identifier: Apache-2.0
// The scratch that a collective needs from its caller: one function sizes it for the plan, the
// executor and the communicators. Collectives go over the wire in pieces; those that gather the
// contributions of all ranks before they are summed do it here, two pieces in turn.
#pragma once

#include <cstdint>

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// Bytes that one rank's part of a piece has at most. Chosen by measurement: larger pieces fall out
/// of the caches, smaller ones pay more latency.
inline constexpr std::int64_t default_piece_bytes = std::int64_t{1} << 20;
/// Default of `cap_bytes`: what `ordered` reductions may take of each rank's memory.
inline constexpr std::int64_t default_staging_cap_bytes = std::int64_t{64} << 20;
/// Pieces of one collective that are in flight at once, each with scratch of its own.
inline constexpr int pieces_in_flight = 2;

/// Whether we do the sums ourselves, in rank order, instead of the library: floating-point sums
/// under `ordered`, and 16-bit types always (MPI has no sum for them). Integer sums have no order.
bool sums_in_rank_order(Dtype dtype, Reductions reductions);

/// Bytes of scratch for one collective of `elems` elements (nccl-tests' S) over `size` ranks.
/// `native`: what the MPI back-end needs to feed a reduce_scatter in pieces. `ordered`: the pieces
/// of all ranks that are summed here, in rank order. Never above `cap_bytes`; 0 where none is
/// needed. Throws PlanError when the cap has no room for one element of each rank.
std::int64_t collective_scratch_bytes(Op op, Dtype dtype, std::int64_t elems, int size,
                                      Reductions reductions, std::int64_t cap_bytes,
                                      std::int64_t piece_bytes = default_piece_bytes);

/// Elements of each rank's part that one piece of a collective carries: the most whose scratch
/// stays under the cap and whose bytes stay at `piece_bytes`; at least 1. A rank's part is its
/// shard for all_gather, reduce_scatter and an all_reduce that is summed here, else the whole
/// array.
std::int64_t piece_elems(Op op, Dtype dtype, std::int64_t elems, int size, Reductions reductions,
                         std::int64_t cap_bytes, std::int64_t piece_bytes = default_piece_bytes);

}  // namespace shardmark
