// SPDX-License-Identifier: Apache-2.0
#include <io/checkpoint/together.hpp>

namespace shardmark {

bool Together::first() const {
  if (comm_ == MPI_COMM_NULL) return true;
  int rank = 0;
  if (MPI_Comm_rank(comm_, &rank) != MPI_SUCCESS) throw CommError(file_ + ": MPI_Comm_rank failed");
  return rank == 0;
}

void Together::agree(const std::string& what) const {
  int failed = what.empty() ? 0 : 1, any = 0;
  if (MPI_Allreduce(&failed, &any, 1, MPI_INT, MPI_MAX, comm_) != MPI_SUCCESS)
    throw CommError(file_ + ": MPI_Allreduce failed between the ranks that share it");
  if (failed != 0) throw IoError(what);
  if (any != 0) throw IoError(file_ + ": another rank that shares it could not write it");
}

}  // namespace shardmark
