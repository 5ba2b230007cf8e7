// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include <core/error.hpp>
#include <core/plan/collective_scratch.hpp>
#include <core/plan/deck/checked.hpp>

namespace shardmark {
namespace {

bool is_floating(Dtype dtype) {
  return dtype == Dtype::fp32 || dtype == Dtype::fp64 || dtype == Dtype::bf16 ||
         dtype == Dtype::fp16;
}

// Whether the pieces of all ranks lie side by side in the scratch before they are added up.
bool gathers_pieces(Op op, Dtype dtype, Reductions reductions) {
  return is_reduction(op) && (op == Op::reduce_scatter || sums_in_rank_order(dtype, reductions));
}

// The part of the array per rank, which is cut into pieces.
std::int64_t part_elems(Op op, Dtype dtype, std::int64_t elems, int size, Reductions reductions) {
  const bool by_shard =
      has_parts(op) || (op == Op::all_reduce && sums_in_rank_order(dtype, reductions));
  return by_shard ? round_up(elems, size, "elements of a collective") / size : elems;
}

}  // namespace

bool sums_in_rank_order(Dtype dtype, Reductions reductions) {
  return dtype_bytes(dtype) == 2 || (reductions == Reductions::ordered && is_floating(dtype));
}

std::int64_t piece_elems(Op op, Dtype dtype, std::int64_t elems, int size, Reductions reductions,
                         std::int64_t cap_bytes, std::int64_t piece_bytes) {
  const std::int64_t part = part_elems(op, dtype, elems, size, reductions);
  constexpr std::int64_t mpi_limit = std::int64_t{1} << 30;  // MPI's counts have 31 bits
  const std::int64_t wanted =
      std::clamp<std::int64_t>(piece_bytes / dtype_bytes(dtype), 1, mpi_limit);
  std::int64_t piece = std::min(part, wanted);
  if (size > 1 && elems > 0 && gathers_pieces(op, dtype, reductions)) {
    const std::int64_t row_bytes = dtype_bytes(dtype) * size;
    const std::int64_t room = cap_bytes / row_bytes;
    if (room < 1)
      throw SizeError("staging of " + std::string(to_string(op)) + ": " +
                      std::to_string(cap_bytes) + " bytes: must hold one element of each of " +
                      std::to_string(size) + " ranks: at most " +
                      std::to_string(cap_bytes / dtype_bytes(dtype)) + " ranks can do that");
    if (piece < part || part > room)  // there is more than one piece, so several areas
      piece = std::min(piece, std::max<std::int64_t>(1, room / pieces_in_flight));
  }
  return std::max<std::int64_t>(piece, 1);
}

std::int64_t collective_scratch_bytes(Op op, Dtype dtype, std::int64_t elems, int size,
                                      Reductions reductions, std::int64_t cap_bytes,
                                      std::int64_t piece_bytes) {
  if (size <= 1 || elems <= 0 || !gathers_pieces(op, dtype, reductions)) return 0;
  const std::int64_t part = part_elems(op, dtype, elems, size, reductions);
  const std::int64_t row_bytes = dtype_bytes(dtype) * size;
  const std::int64_t piece =
      piece_elems(op, dtype, elems, size, reductions, cap_bytes, piece_bytes);
  const std::int64_t pieces = (part + piece - 1) / piece;
  const std::int64_t areas =
      std::min({pieces, std::int64_t{pieces_in_flight}, cap_bytes / row_bytes});
  return areas * piece * row_bytes;
}

}  // namespace shardmark
