// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shardmark {

/// One thread a rank unless OMP_NUM_THREADS says otherwise, for the matrix products as for the
/// kernels: two ranks that each start a thread on every core slow each other down many times over.
/// Local; before Kokkos is initialised.
void default_to_one_thread();

/// Threads that a matrix product of this rank runs on. Local.
int matmul_threads();

}  // namespace shardmark
