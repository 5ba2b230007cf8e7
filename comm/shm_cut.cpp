// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <comm/shm_cut.hpp>

namespace shardmark {

ShmCut shm_cut(const Collective& c, int size, std::int64_t buffer_bytes) {
  ShmCut cut;
  if (c.op == Op::barrier) {
    cut.rounds = size > 1 ? 1 : 0;
    return cut;
  }
  if (size == 1 || c.elems == 0) return cut;
  const std::int64_t elem_bytes = dtype_bytes(c.dtype);
  const bool by_shard = c.op == Op::all_gather || c.op == Op::reduce_scatter;
  cut.part_elems = by_shard ? c.elems / size : c.elems;
  cut.small =
      c.op == Op::all_reduce && c.elems * elem_bytes <= std::min(shm_small_bytes, buffer_bytes);
  cut.reduces_by_share = (c.op == Op::all_reduce && !cut.small) || c.op == Op::reduce;
  // Ranks' shares of a piece start on cache lines where they are long enough for that to matter.
  constexpr std::int64_t line_bytes = 64;
  const bool shared_out = c.op == Op::reduce_scatter || cut.reduces_by_share;
  const std::int64_t room = buffer_bytes / elem_bytes / (c.op == Op::reduce_scatter ? size : 1);
  const std::int64_t unit =
      line_bytes / elem_bytes * (shared_out && c.op != Op::reduce_scatter ? size : 1);
  cut.piece_elems = std::min(cut.part_elems, room > unit ? room / unit * unit : room);
  cut.rounds = static_cast<std::uint64_t>((cut.part_elems + cut.piece_elems - 1) / cut.piece_elems);
  return cut;
}

}  // namespace shardmark
