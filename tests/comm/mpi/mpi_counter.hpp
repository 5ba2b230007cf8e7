// SPDX-License-Identifier: Apache-2.0
// Counts, by PMPI, the MPI calls that move data. Link mpi_counter.cpp into a test executable: it
// takes the place of MPI's own entry points, beneath anything that ShardMark counts itself.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace shardmark::testing {

void reset_mpi_counts();
/// By function name; functions that were not called are absent.
std::map<std::string, std::int64_t> mpi_counts();

}  // namespace shardmark::testing
