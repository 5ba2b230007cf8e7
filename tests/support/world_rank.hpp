// SPDX-License-Identifier: Apache-2.0
// Rank and size of MPI_COMM_WORLD, for tests.
#pragma once

#include <mpi.h>

namespace shardmark::test {

inline int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
inline int world_size() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

}  // namespace shardmark::test
