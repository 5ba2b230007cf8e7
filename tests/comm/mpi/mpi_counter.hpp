// SPDX-License-Identifier: Apache-2.0
// Counts the MPI calls that move data, and the elements and bytes that they move. mpi_counter.cpp
// replaces MPI's own functions in the test executable by means of MPI's profiling interface,
// independently of what ShardMark counts itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>

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

}  // namespace shardmark::test
