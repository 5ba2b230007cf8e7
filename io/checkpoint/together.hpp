// SPDX-License-Identifier: Apache-2.0
// Steps that ranks do together because they share a file. What fails on one rank fails on all of
// them at the same step, so that no rank waits forever in a collective call that another rank has
// left by an exception.
#pragma once

#include <string>

#include <mpi.h>

#include <core/error.hpp>

namespace shardmark {

/// Runs steps on all ranks that share a file, and makes an error on one of them an error on all.
class Together {
 public:
  /// With MPI_COMM_NULL the file belongs to one rank, and a step is simply executed. Messages name
  /// `file`.
  Together(MPI_Comm comm, std::string file) : comm_(comm), file_(std::move(file)) {}

  /// Returns whether this rank is the one that does what only one rank must do.
  bool first() const;

  /// Executes `body` and agrees on its success. Collective. Throws IoError if `body` failed here or
  /// on another rank.
  template<class Body>
  void step(Body body) const {
    if (comm_ == MPI_COMM_NULL) return body();
    std::string what;
    try {
      body();
    } catch (const IoError& e) {
      what = e.what();
    }
    agree(what);
  }

 private:
  void agree(const std::string& what) const;

  MPI_Comm comm_;
  std::string file_;
};

}  // namespace shardmark
