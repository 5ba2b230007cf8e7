// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <comm/shm/shm_rounds.hpp>
#include <core/cache_line.hpp>

namespace shardmark {

ShmRounds plan_shm_rounds(const Collective& c, int size, const ShmLimits& means) {
  ShmRounds cut;
  if (c.op == Op::barrier) {
    cut.rounds = size > 1 ? 1 : 0;
    return cut;
  }
  if (size == 1 || c.elems == 0) return cut;
  const std::int64_t elem_bytes = dtype_bytes(c.dtype);
  const bool by_shard = has_parts(c.op);
  cut.part_elems = by_shard ? c.elems / size : c.elems;
  cut.small = c.op == Op::all_reduce &&
              c.elems * elem_bytes <= std::min(shm_small_bytes, means.buffer_bytes);
  cut.direct = means.direct_bytes && (c.op == Op::all_gather || c.op == Op::broadcast) &&
               cut.part_elems * elem_bytes >= *means.direct_bytes;
  cut.reduces_by_share = (c.op == Op::all_reduce && !cut.small) || c.op == Op::reduce;

  std::int64_t room = means.buffer_bytes * (cut.direct ? shm_direct_buffers : 1) / elem_bytes;
  if (c.op == Op::reduce_scatter || c.op == Op::all_to_all) room /= size;
  // Pieces and the ranks' shares of them end on cache lines if they are long enough.
  const std::int64_t line_elems = cache_line_bytes / elem_bytes * (cut.reduces_by_share ? size : 1);
  if (room > line_elems) room -= room % line_elems;
  cut.piece_elems = std::min(cut.part_elems, room);
  cut.rounds = static_cast<std::uint64_t>((cut.part_elems + cut.piece_elems - 1) / cut.piece_elems);
  return cut;
}

}  // namespace shardmark
