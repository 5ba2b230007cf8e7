// SPDX-License-Identifier: Apache-2.0
// Settings that must be made before MPI starts, found by measurement. Nobody needs them for
// correctness; without them collectives are two to four times slower.
#pragma once

namespace shardmark {

/// Keeps the temporaries that MPI allocates for each piece in the C library's heap. Otherwise each
/// is mapped, touched for the first time, page by page, and unmapped again, which takes longer than
/// the transfer. Blocks above `heap_block_bytes` are still mapped, so big buffers are really freed;
/// the heap keeps at most `heap_kept_bytes` that are free. Only with glibc; throws CommError if
/// glibc refuses.
void tune_mpi_memory();

/// Chooses, by MPICH's own environment variables, the algorithms that move least; a variable that
/// is set already stays. Other MPI libraries do not look at them. Throws CommError.
void tune_mpich();

}  // namespace shardmark
