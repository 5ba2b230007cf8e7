// SPDX-License-Identifier: Apache-2.0
// MPI's life time, for `main`: initialises MPI, has errors returned instead of aborting, finalises.
// Whoever cannot reach the others any more ends all of them with `abort_all`.
#pragma once

#include <mpi.h>

#include <core/error.hpp>

namespace shardmark {

class MpiWorld {
 public:
  /// Collective over all processes of the launch. Where MPI runs already (tests), it is only used.
  /// Sets what comm/mpi/mpi_tuning.hpp knows first. Throws CommError.
  MpiWorld(int& argc, char**& argv);
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  MPI_Comm comm() const { return MPI_COMM_WORLD; }
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  bool owner_ = false;
  int rank_ = 0, size_ = 1;
};

/// Ends all processes of the launch with this status, stopped ones included (the launcher kills
/// them). Local: any one rank suffices. Outputs are flushed first.
[[noreturn]] void abort_all(MPI_Comm comm, ExitStatus status);

}  // namespace shardmark
