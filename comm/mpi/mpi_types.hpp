// SPDX-License-Identifier: Apache-2.0
// Owners of MPI handles, and the MPI equivalents of our types.
#pragma once

#include <cstdint>
#include <utility>

#include <mpi.h>

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// The MPI type of `dtype`. 16-bit types are MPI_UINT16_T, because MPI only moves them.
MPI_Datatype mpi_type(Dtype dtype);
/// MPI_SUM for sum and average, MPI_MAX for max.
MPI_Op mpi_op(Reduction reduction);

/// The number of this rank in `comm`, and the number of its ranks. Throw CommError.
int comm_rank(MPI_Comm comm);
int comm_size(MPI_Comm comm);

/// Owns a communicator: a duplicate, so that our calls never match those of other code, or the
/// result of a split. Creation and destruction are collective and must happen in the same order on
/// all ranks.
class OwnedComm {
 public:
  OwnedComm() = default;
  /// Takes ownership of `comm` and makes it return error codes. Not collective. Throws CommError.
  explicit OwnedComm(MPI_Comm comm);
  /// Collective over `comm`. Throws CommError.
  static OwnedComm duplicate(MPI_Comm comm);
  static OwnedComm split(MPI_Comm comm, int color, int key);
  OwnedComm(OwnedComm&& other) noexcept : comm_(std::exchange(other.comm_, MPI_COMM_NULL)) {}
  OwnedComm& operator=(OwnedComm&& other) noexcept {
    std::swap(comm_, other.comm_);
    return *this;
  }
  ~OwnedComm();
  MPI_Comm get() const { return comm_; }
  /// Gives the handle up without freeing it: after an error, peers may not take part in the free.
  void release() { comm_ = MPI_COMM_NULL; }

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

/// A datatype of `elems` contiguous elements with an extent of `extent_elems`: in an array of
/// shards, the pieces that lie at the same place of each shard.
class PieceType {
 public:
  PieceType() = default;
  /// Not collective. Throws CommError.
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
