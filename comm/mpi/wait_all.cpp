// SPDX-License-Identifier: Apache-2.0
#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/wait_all.hpp>

namespace shardmark {

void wait_all(MPI_Request* requests, int count, const Idle& idle) {
  for (int done = 0;; idle.pause()) {
    SHARDMARK_MPI(MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE));
    if (done != 0) return;
  }
}

}  // namespace shardmark
