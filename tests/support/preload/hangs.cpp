// SPDX-License-Identifier: Apache-2.0
// SHARDMARK_TEST_HANG="CALL RANK NUMBER": rank RANK never returns from its call number NUMBER,
// counted from 1, of the function CALL. SHARDMARK_TEST_HANG_ABORT="1": no rank returns from
// MPI_Abort.
#include "hangs.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "rank.hpp"
#include <mpi.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace shardmark::test::preload {

void hang_in(const char* call) {
  static const char* const text = std::getenv("SHARDMARK_TEST_HANG");
  static int calls = 0;
  char chosen[64] = "";
  int rank = 0, number = 0;
  if (text == nullptr) return;
  if (std::sscanf(text, "%63s %d %d", chosen, &rank, &number) != 3) std::abort();
  if (std::strcmp(call, chosen) != 0 || launched_rank() != rank || ++calls != number) return;
  for (;;) ::pause();
}

}  // namespace shardmark::test::preload

using shardmark::test::preload::hang_in;

extern "C" {

int MPI_Init_thread(int* argc, char*** argv, int required, int* provided) {
  hang_in("MPI_Init_thread");
  return PMPI_Init_thread(argc, argv, required, provided);
}

int MPI_Comm_dup(MPI_Comm comm, MPI_Comm* copy) {
  hang_in("MPI_Comm_dup");
  return PMPI_Comm_dup(comm, copy);
}

int MPI_Comm_free(MPI_Comm* comm) {
  hang_in("MPI_Comm_free");
  return PMPI_Comm_free(comm);
}

int MPI_Abort(MPI_Comm comm, int code) {
  while (std::getenv("SHARDMARK_TEST_HANG_ABORT") != nullptr) ::pause();
  return PMPI_Abort(comm, code);
}

int MPI_Finalize() {
  hang_in("MPI_Finalize");
  return PMPI_Finalize();
}

int fsync(int file) {
  hang_in("fsync");
  return static_cast<int>(::syscall(SYS_fsync, file));
}

}  // extern "C"
