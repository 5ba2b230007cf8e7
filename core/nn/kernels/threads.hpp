// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shardmark {

/// Sets one thread per rank, for matrix products and kernels, unless OMP_NUM_THREADS is set: two
/// ranks that each start a thread on every core slow each other down many times over. Local; call
/// it before Kokkos is initialised.
void default_to_one_thread();

/// Returns the number of threads on which a matrix product of this rank runs. Local.
int matmul_threads();

}  // namespace shardmark
