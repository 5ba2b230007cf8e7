// SPDX-License-Identifier: Apache-2.0
// The scratch that a collective needs from its caller. One function sizes it for the plan, the
// executor and the communicators. Collectives are sent in pieces. Those that gather the
// contributions of all ranks before they add them up gather into the scratch, two pieces in turn.
#pragma once

#include <cstdint>

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// The most bytes of one rank's part of a piece, chosen by measurement: larger pieces do not stay
/// in the caches, and smaller ones cost more latency.
inline constexpr std::int64_t default_piece_bytes = std::int64_t{1} << 20;
/// Default of `cap_bytes`, the scratch that `ordered` reductions may use per rank.
inline constexpr std::int64_t default_staging_cap_bytes = std::int64_t{64} << 20;
/// The number of pieces of one collective that are in flight at once, each with its own scratch.
inline constexpr int pieces_in_flight = 2;

/// Whether this program adds up in rank order instead of the library. It does so for floating-point
/// types under `ordered`, and always for 16-bit types, for which MPI has no sum. The order of
/// integer sums does not matter.
bool sums_in_rank_order(Dtype dtype, Reductions reductions);

/// Bytes of scratch for one collective of `elems` elements (S of nccl-tests) over `size` ranks.
/// Under `native` the MPI back-end needs it to send a reduce_scatter in pieces; under `ordered` it
/// holds the pieces of all ranks that are added up in rank order. At most `cap_bytes`; 0 if none is
/// needed. Throws PlanError when the cap has no room for one element of each rank.
std::int64_t collective_scratch_bytes(Op op, Dtype dtype, std::int64_t elems, int size,
                                      Reductions reductions, std::int64_t cap_bytes,
                                      std::int64_t piece_bytes = default_piece_bytes);

/// Elements of each rank's part in one piece of a collective: the most for which the scratch stays
/// within the cap and the bytes within `piece_bytes`, and at least 1. A rank's part is its shard
/// for all_gather, reduce_scatter, all_to_all and an all_reduce that adds up in rank order, and
/// otherwise the whole array.
std::int64_t piece_elems(Op op, Dtype dtype, std::int64_t elems, int size, Reductions reductions,
                         std::int64_t cap_bytes, std::int64_t piece_bytes = default_piece_bytes);

}  // namespace shardmark
