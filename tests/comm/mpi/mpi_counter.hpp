// SPDX-License-Identifier: Apache-2.0
// Counts the MPI calls that move data, and the elements and bytes that they move. mpi_counter.cpp
// replaces MPI's own functions in the test executable by means of MPI's profiling interface,
// independently of what ShardMark counts itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include <comm/mpi/mpi_calls.hpp>

namespace shardmark::test {

/// What the calls of one collective function carried: the whole array of each collective, which is
/// what a rank receives of a gather and what it gives to a scatter, an exchange or a reduction.
struct MpiData {
  std::int64_t elems = 0, bytes = 0;
  bool operator==(const MpiData&) const = default;
};

void reset_mpi_counts();
/// Calls by function name; functions that were not called are absent.
std::map<std::string, std::int64_t> mpi_counts();
/// The data of the non-blocking collectives by function name, counted with the functions' own
/// counts and types; functions that were not called are absent.
std::map<std::string, MpiData> mpi_data();

/// The number of calls of each MPI function that every rank makes for `c`, by the kind of its
/// route.
inline std::map<std::string, std::int64_t> mpi_calls(const Collective& c, int size,
                                                     const CommOptions& options) {
  const Route route = route_of(c, size, options);
  const std::int64_t n = route.pieces;
  switch (route.kind) {
    case RouteKind::local: return {};
    case RouteKind::barrier: return {{"MPI_Ibarrier", n}};
    case RouteKind::all_gather: return {{"MPI_Iallgather", n}};
    case RouteKind::all_to_all: return {{"MPI_Ialltoall", n}};
    case RouteKind::all_to_all_parts: return {{"MPI_Ialltoallv", n}};
    case RouteKind::all_reduce: return {{"MPI_Iallreduce", n}};
    case RouteKind::ordered_all_reduce: return {{"MPI_Ialltoallv", n}, {"MPI_Iallgatherv", n}};
    case RouteKind::reduce_scatter: return {{"MPI_Ireduce_scatter_block", n}};
    case RouteKind::ordered_reduce_scatter: return {{"MPI_Ialltoall", n}};
    case RouteKind::reduce: return {{"MPI_Ireduce", n}};
    case RouteKind::ordered_reduce: return {{"MPI_Igather", n}};
    case RouteKind::broadcast: return {{"MPI_Ibcast", n}};
  }
  return {};
}

}  // namespace shardmark::test
