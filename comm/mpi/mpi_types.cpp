// SPDX-License-Identifier: Apache-2.0
#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_types.hpp>
#include <comm/mpi/unwatched_call.hpp>

namespace shardmark {

MPI_Datatype mpi_type(Dtype dtype) {
  switch (dtype) {
    case Dtype::fp32: return MPI_FLOAT;
    case Dtype::fp64: return MPI_DOUBLE;
    case Dtype::int32: return MPI_INT32_T;
    case Dtype::int64: return MPI_INT64_T;
    case Dtype::uint8: return MPI_UINT8_T;
    case Dtype::int8: return MPI_INT8_T;
    case Dtype::bf16:
    case Dtype::fp16: return MPI_UINT16_T;
  }
  return MPI_DATATYPE_NULL;
}

MPI_Op mpi_op(Reduction reduction) {
  return reduction == Reduction::max ? MPI_MAX : MPI_SUM;
}

int comm_rank(MPI_Comm comm) {
  int rank = 0;
  SHARDMARK_MPI(MPI_Comm_rank(comm, &rank));
  return rank;
}

int comm_size(MPI_Comm comm) {
  int size = 1;
  SHARDMARK_MPI(MPI_Comm_size(comm, &size));
  return size;
}

OwnedComm::OwnedComm(MPI_Comm comm) : comm_(comm) {
  SHARDMARK_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
}

OwnedComm OwnedComm::duplicate(MPI_Comm comm) {
  const UnwatchedCall call("duplicating communicators");
  MPI_Comm copy = MPI_COMM_NULL;
  SHARDMARK_MPI(MPI_Comm_dup(comm, &copy));
  return OwnedComm(copy);
}

OwnedComm OwnedComm::split(MPI_Comm comm, int color, int key) {
  const UnwatchedCall call("splitting communicators");
  MPI_Comm part = MPI_COMM_NULL;
  SHARDMARK_MPI(MPI_Comm_split(comm, color, key, &part));
  return OwnedComm(part);
}

OwnedComm::~OwnedComm() {
  if (comm_ == MPI_COMM_NULL) return;
  const UnwatchedCall call("closing communicators");
  report_mpi(MPI_Comm_free(&comm_), "MPI_Comm_free");
}

PieceType::PieceType(Dtype dtype, std::int64_t elems, std::int64_t extent_elems) {
  MPI_Datatype run = MPI_DATATYPE_NULL;
  SHARDMARK_MPI(MPI_Type_contiguous(static_cast<int>(elems), mpi_type(dtype), &run));
  const auto extent = static_cast<MPI_Aint>(extent_elems * dtype_bytes(dtype));
  const int code = MPI_Type_create_resized(run, 0, extent, &type_);
  SHARDMARK_MPI(MPI_Type_free(&run));
  check_mpi(code, "MPI_Type_create_resized");
  SHARDMARK_MPI(MPI_Type_commit(&type_));
}

PieceType::~PieceType() {
  if (type_ != MPI_DATATYPE_NULL) report_mpi(MPI_Type_free(&type_), "MPI_Type_free");
}

}  // namespace shardmark
