// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_library.hpp>
#include <comm/mpi/mpi_world.hpp>

namespace shardmark {

namespace {

// Launchers forward the output of ranks with a delay; an abort that overtakes it loses the message.
constexpr std::chrono::milliseconds time_to_forward{300};

}  // namespace

MpiWorld::MpiWorld(int& argc, char**& argv) {
  int running = 0;
  SHARDMARK_MPI(MPI_Initialized(&running));
  if (!running) {
    tune_mpich();
    int provided = 0;
    SHARDMARK_MPI(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided));
    owner_ = true;
    if (provided < MPI_THREAD_FUNNELED)
      throw CommError(
          "MPI start-up: thread level MPI_THREAD_SINGLE: must be MPI_THREAD_FUNNELED: "
          "use an MPI library with thread support");
  }
  SHARDMARK_MPI(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  SHARDMARK_MPI(MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN));
  SHARDMARK_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  SHARDMARK_MPI(MPI_Comm_size(MPI_COMM_WORLD, &size_));
}

MpiWorld::~MpiWorld() {
  if (!owner_) return;
  if (MPI_Finalize() != MPI_SUCCESS) std::fputs("MPI_Finalize failed\n", stderr);
}

void abort_all(MPI_Comm comm, ExitStatus status) {
  const int code = static_cast<int>(status);
  std::fflush(nullptr);
  std::this_thread::sleep_for(time_to_forward);
  if (MPI_Abort(comm, code) != MPI_SUCCESS) std::fputs("MPI_Abort failed\n", stderr);
  std::_Exit(code);
}

void wait_all(MPI_Request* requests, int count, const Idle& idle) {
  for (int done = 0;; idle.pause()) {
    SHARDMARK_MPI(MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE));
    if (done != 0) return;
  }
}

}  // namespace shardmark
