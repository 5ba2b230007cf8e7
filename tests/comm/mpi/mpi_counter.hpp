// SPDX-License-Identifier: Apache-2.0
// Counts the MPI calls that move data. mpi_counter.cpp replaces MPI's own functions in the test
// executable by means of MPI's profiling interface, independently of what ShardMark counts itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace shardmark::testing {

void reset_mpi_counts();
/// By function name; functions that were not called are absent.
std::map<std::string, std::int64_t> mpi_counts();

}  // namespace shardmark::testing
