// SPDX-License-Identifier: Apache-2.0
// Steps that ranks do together because they share a file. What fails on one rank fails on all of
// them at the same step, so that no rank waits forever in a collective call that another rank has
// left by an exception.
#pragma once

#include <cstddef>
#include <string>
#include <type_traits>

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

  /// Executes `body`, which must not wait for other ranks, and agrees on its success. Collective.
  /// Throws on all ranks what `body` threw on the lowest rank that failed.
  template<class Body>
  void step(Body body) const {
    if (comm_ == MPI_COMM_NULL) return body();
    Failure mine{ExitStatus::valid, {}};
    try {
      body();
    } catch (...) {  // whatever it is, the others must not wait for this rank
      mine = current_failure();
    }
    agree(mine);
  }

  /// Returns the value that `first` has. Collective.
  template<class T>
  T of_first(T value) const {
    static_assert(std::is_trivially_copyable_v<T>, "only plain values cross ranks");
    if (comm_ != MPI_COMM_NULL) broadcast(&value, sizeof value);
    return value;
  }

 private:
  void broadcast(void* value, std::size_t bytes) const;
  void agree(const Failure& mine) const;

  MPI_Comm comm_;
  std::string file_;
};

}  // namespace shardmark
