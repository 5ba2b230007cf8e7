// SPDX-License-Identifier: Apache-2.0
// The lifetime of MPI, for `main`: initialises MPI, makes it return error codes, and finalises it.
// `abort_all` ends all ranks when they cannot be reached any more.
#pragma once

#include <mpi.h>

#include <comm/idle.hpp>
#include <core/error.hpp>

namespace shardmark {

/// MPI_Init and MPI_Finalize as an object.
class MpiWorld {
 public:
  /// Collective over all processes of the launch. Applies tune_mpich() first. If MPI already runs
  /// (in tests), only uses it. Throws CommError.
  MpiWorld(int& argc, char**& argv);
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  // NOLINTNEXTLINE(readability-convert-member-functions-to-static): whoever has no world has no MPI
  MPI_Comm comm() const { return MPI_COMM_WORLD; }
  int rank() const { return rank_; }
  int size() const { return size_; }

 private:
  bool owner_ = false;
  int rank_ = 0, size_ = 1;
};

/// Ends all processes of the launch with `status`, stopped ones included, because the launcher
/// kills them. Flushes output first, and leaves the launcher 0.3 s to forward it. Not collective:
/// one rank is enough.
[[noreturn]] void abort_all(MPI_Comm comm, ExitStatus status);

/// MPI_Waitall for `count` requests that pauses between polls as `idle` says. MPI's own spins and
/// keeps the core from a rank that it may wait for. Throws CommError.
void wait_all(MPI_Request* requests, int count, const Idle& idle);

}  // namespace shardmark
