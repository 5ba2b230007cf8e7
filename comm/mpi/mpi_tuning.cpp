// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string>

#include <comm/mpi/mpi_tuning.hpp>
#include <core/error.hpp>

namespace shardmark {

void tune_mpich() {
  // Exchanges shards in pairs: (N-1)/N of the array a rank, where the default passes it log N
  // times.
  constexpr const char* name = "MPIR_CVAR_IREDUCE_SCATTER_BLOCK_INTRA_ALGORITHM";
  if (setenv(name, "sched_pairwise", 0) != 0)
    throw CommError(std::string(name) + ": cannot be set: out of memory");
}

}  // namespace shardmark
