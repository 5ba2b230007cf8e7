// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <string>

#include <malloc.h>

#include <comm/mpi_tuning.hpp>
#include <core/error.hpp>
#include <core/plan/scratch.hpp>

namespace shardmark {
namespace {

// Above MPI's temporaries for a piece, and below the limit that glibc accepts, 32 MiB.
constexpr int heap_block_bytes = 8 << 20;
constexpr int heap_kept_bytes = 64 << 20;
static_assert(heap_block_bytes > 2 * default_piece_bytes);

}  // namespace

void tune_mpi_memory() {
#ifdef __GLIBC__
  if (mallopt(M_MMAP_THRESHOLD, heap_block_bytes) != 1 ||
      mallopt(M_TRIM_THRESHOLD, heap_kept_bytes) != 1)
    throw CommError("mallopt: thresholds refused: unknown C library: build without the tuning");
#endif
}

void tune_mpich() {
  // Exchanges shards in pairs: (N-1)/N of the array a rank, where the default passes it log N
  // times.
  constexpr const char* name = "MPIR_CVAR_IREDUCE_SCATTER_BLOCK_INTRA_ALGORITHM";
  if (setenv(name, "sched_pairwise", 0) != 0)
    throw CommError(std::string(name) + ": cannot be set: out of memory");
}

}  // namespace shardmark
