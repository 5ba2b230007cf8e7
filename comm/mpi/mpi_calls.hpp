// SPDX-License-Identifier: Apache-2.0
// Which MPI calls a collective becomes under the back-end `mpi`: one table, read by the back-end
// that makes them and by the tests that count them. A collective is cut into pieces; a piece is one
// call or two. Under `shm` it becomes none.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>

namespace shardmark {

/// How a collective is done.
enum class RouteKind : std::uint8_t {
  local,                   // one rank, or no elements: a copy, no call
  barrier,                 // MPI_Ibarrier
  all_gather,              // MPI_Iallgather
  all_reduce,              // MPI_Iallreduce
  ordered_all_reduce,      // MPI_Ialltoallv, sums, MPI_Iallgatherv
  reduce_scatter,          // MPI_Ireduce_scatter_block
  ordered_reduce_scatter,  // MPI_Ialltoall, sums
  reduce,                  // MPI_Ireduce
  ordered_reduce,          // MPI_Igather, sums
  broadcast                // MPI_Ibcast
};

/// A route and how it is cut. A step is one MPI call.
struct Route {
  RouteKind kind = RouteKind::local;
  std::int64_t part_elems = 0;   // what is cut: a shard, a rank's part, or the whole array
  std::int64_t piece_elems = 0;  // of a part
  std::int64_t pieces = 0;
  std::int64_t scratch_bytes = 0;  // what the caller must bring
  int areas = 0;                   // pieces that scratch has room for

  int steps_of_piece() const { return kind == RouteKind::ordered_all_reduce ? 2 : 1; }
  std::int64_t steps() const { return kind == RouteKind::local ? 0 : pieces * steps_of_piece(); }
};

/// Pure; the same on all ranks, since it looks at no address. Throws PlanError as
/// collective_scratch_bytes does.
Route route_of(const Collective& c, int size, const MpiOptions& options);

/// The table: how many of which MPI call `c` becomes on every rank. Pure.
std::map<std::string, std::int64_t> mpi_calls(const Collective& c, int size,
                                              const MpiOptions& options);

}  // namespace shardmark
