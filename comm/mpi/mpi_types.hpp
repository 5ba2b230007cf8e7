// SPDX-License-Identifier: Apache-2.0
// MPI's handles with owners, and our types in MPI's words.
#pragma once

#include <cstdint>
#include <utility>

#include <mpi.h>

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// fp32 MPI_FLOAT …; 16-bit types are MPI_UINT16_T, since MPI only moves them.
MPI_Datatype mpi_type(Dtype dtype);
/// MPI_SUM for sum and average, MPI_MAX for max.
MPI_Op mpi_op(Reduction reduction);

/// A duplicate of a communicator, so that our calls never meet those of others; or the result of a
/// split. Creating is collective; freeing too, in the same order on all ranks.
class OwnedComm {
 public:
  OwnedComm() = default;
  /// Takes `comm` over and has it return errors.
  explicit OwnedComm(MPI_Comm comm);
  static OwnedComm duplicate(MPI_Comm comm);
  OwnedComm(OwnedComm&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  OwnedComm& operator=(OwnedComm&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~OwnedComm();
  MPI_Comm get() const { return comm_; }
  /// Gives the handle up without freeing it: after an error, peers may not join the free.
  void release() { comm_ = MPI_COMM_NULL; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// A run of elements whose successor, of another rank, lies `extent_elems` further: one column of
/// pieces in an array of shards.
class PieceType {
 public:
  PieceType() = default;
  PieceType(Dtype dtype, std::int64_t elems, std::int64_t extent_elems);
  PieceType(PieceType&& other) noexcept : type_(std::exchange(other.type_, MPI_DATATYPE_NULL)) {}
  PieceType& operator=(PieceType&& other) noexcept {
    std::swap(type_, other.type_);
    return *this;
  }
  ~PieceType();
  MPI_Datatype get() const { return type_; }

 private:
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
};

}  // namespace shardmark
