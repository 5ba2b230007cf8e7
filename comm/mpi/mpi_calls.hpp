// SPDX-License-Identifier: Apache-2.0
// Which MPI calls implement each collective of the back-end `mpi`. A collective is split into
// pieces of one or two calls each. The back-end `shm` makes none of these calls.
#pragma once

#include <cstdint>

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>

namespace shardmark {

/// The algorithm of a collective.
enum class RouteKind : std::uint8_t {
  local,                   // one rank, or no elements: a copy without MPI calls
  barrier,                 // MPI_Ibarrier
  all_gather,              // MPI_Iallgather
  all_to_all,              // MPI_Ialltoall
  all_to_all_parts,        // MPI_Ialltoallv, whose parts differ
  all_reduce,              // MPI_Iallreduce
  ordered_all_reduce,      // MPI_Ialltoallv, local sums, MPI_Iallgatherv
  reduce_scatter,          // MPI_Ireduce_scatter_block
  ordered_reduce_scatter,  // MPI_Ialltoall, local sums
  reduce,                  // MPI_Ireduce
  ordered_reduce,          // MPI_Igather, local sums
  broadcast                // MPI_Ibcast
};

/// The algorithm of a collective and its split into pieces. A step is one MPI call.
struct Route {
  RouteKind kind = RouteKind::local;
  std::int64_t part_elems = 0;   // what is split: a shard, a rank's part, or the whole array
  std::int64_t piece_elems = 0;  // elements of a part in each piece but the last
  std::int64_t pieces = 0;
  std::int64_t scratch_bytes = 0;  // scratch that the caller has to provide
  int areas = 0;                   // how many pieces the scratch has room for

  int steps_of_piece() const { return kind == RouteKind::ordered_all_reduce ? 2 : 1; }
  std::int64_t steps() const { return kind == RouteKind::local ? 0 : pieces * steps_of_piece(); }
};

/// The route of `c` in a group of `size` ranks. Pure, and the same on all ranks because it reads no
/// addresses. Throws PlanError like collective_scratch_bytes.
Route route_of(const Collective& c, int size, const CommOptions& options);

}  // namespace shardmark
