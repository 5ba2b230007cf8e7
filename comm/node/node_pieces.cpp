// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <comm/node/node_pieces.hpp>
#include <core/cache_line.hpp>
#include <core/plan/collective_scratch.hpp>

namespace shardmark {

NodePieces plan_node_pieces(const Collective& c, int size, int nodes, Reductions reductions,
                            const PieceLimits& limits) {
  NodePieces pieces;
  if (c.op == Op::barrier) {
    pieces.rounds = size > 1 ? 1 : 0;
    return pieces;
  }
  if (size == 1 || c.elems == 0) return pieces;
  pieces.by_shard = has_parts(c.op);
  pieces.part_elems = pieces.by_shard ? c.elems / size : c.elems;
  pieces.rows_of_ranks =
      c.op == Op::all_to_all || (is_reduction(c.op) && sums_in_rank_order(c.dtype, reductions));

  // Enough pieces that all are in progress at once, unless they would become too small.
  const std::int64_t elem_bytes = dtype_bytes(c.dtype), row_elems = pieces.by_shard ? size : 1;
  const std::int64_t wanted_bytes =
      std::min(std::max(c.elems * elem_bytes / node_pieces_in_flight, limits.least_bytes),
               limits.most_bytes);
  std::int64_t piece = std::max<std::int64_t>(1, wanted_bytes / elem_bytes / row_elems);
  const std::int64_t line_elems = cache_line_bytes / elem_bytes * (pieces.by_shard ? 1 : size);
  if (piece > line_elems) piece -= piece % line_elems;
  pieces.piece_elems = std::min(piece, pieces.part_elems);
  pieces.rounds =
      static_cast<std::uint64_t>((pieces.part_elems + pieces.piece_elems - 1) / pieces.piece_elems);
  const bool sums_everywhere = c.op == Op::all_reduce || c.op == Op::reduce;
  pieces.two_steps = sums_everywhere && nodes > 2 &&
                     pieces.piece_elems * elem_bytes * (nodes - 2) > limits.least_bytes / 2;
  return pieces;
}

}  // namespace shardmark
