// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string>

#include <comm/mpi/mpi_tuning.hpp>
#include <core/error.hpp>

namespace shardmark {

void tune_mpich() {
  // Pairwise exchange sends (N-1)/N of the array per rank; MPICH's default sends it log N times.
  constexpr const char* name = "MPIR_CVAR_IREDUCE_SCATTER_BLOCK_INTRA_ALGORITHM";
  if (setenv(name, "sched_pairwise", 0) != 0)
    throw CommError(std::string(name) + " = sched_pairwise: cannot be set: out of memory");
}

}  // namespace shardmark
