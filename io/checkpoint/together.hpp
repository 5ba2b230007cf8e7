// SPDX-License-Identifier: Apache-2.0
// Steps that ranks sharing a file do together: what fails on one fails on all, at the same step, so
// that no rank waits for ever in a collective call that another has left by an exception.
#pragma once

#include <string>

#include <mpi.h>

#include <core/error.hpp>

namespace shardmark {

/// Runs steps on all ranks that share a file, and makes an error on one of them an error on all.
class Together {
 public:
  /// MPI_COMM_NULL: a file of one rank, where a step is just done. `file` is named in errors.
  Together(MPI_Comm comm, std::string file) : comm_(comm), file_(std::move(file)) {}

  /// The one of them that does what one must.
  bool first() const;

  /// Collective. Throws IoError: what `body` threw here, or that another rank failed.
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
