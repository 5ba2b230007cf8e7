// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <comm/collective.hpp>
#include <comm/shm/shm_flight.hpp>
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

ShmFlight::ShmFlight(const Collective& c, const ShmRounds& cut, ShmWindow& window,
                     const PeerMemory& peers, Moved& moved)
    : c_(c),
      rounds_plan_(cut),
      window_(window),
      peers_(peers),
      moved_(moved),
      receives_(c.op != Op::reduce || c.root == window.rank()),
      rows_(static_cast<std::size_t>(window.size())) {
  if (c.op == Op::barrier) c_.elems = 0;
}

void ShmFlight::begin() {
  base_ = window_.reserve_rounds(rounds_plan_.rounds);
  if (rounds_plan_.rounds == 0) copy_whole(c_, window_.rank(), window_.size(), moved_);
}

// The latest stage comes first: it frees buffers, and its data are still in the caches.
bool ShmFlight::advance() {
  if (may_read()) {
    if (read_ == 0) check_signatures();
    read();
    window_.publish(Stage::read, base_ + ++read_);
  } else if (may_reduce()) {
    if (reduced_ == 0) check_signatures();
    reduce();
    window_.publish(Stage::reduced, base_ + ++reduced_);
  } else if (may_write()) {
    if (written_ == 0) window_.notice(window_.rank(), base_).signature = signature_of(c_, base_);
    write();
    window_.publish(Stage::written, base_ + ++written_);
  } else {
    return false;
  }
  return true;
}

bool ShmFlight::may_write() const {
  return written_ != rounds_plan_.rounds && written_ != read_ + window_.buffers() &&
         window_.free_for(base_ + written_);
}

bool ShmFlight::may_reduce() const {
  return rounds_plan_.reduces_by_share && reduced_ < written_ &&
         window_.all_reached(Stage::written, base_ + reduced_ + 1);
}

bool ShmFlight::may_read() const {
  const std::uint64_t round = base_ + read_ + 1;
  if (rounds_plan_.reduces_by_share)
    return read_ < reduced_ && (!receives_ || window_.all_reached(Stage::reduced, round));
  if (read_ == written_) return false;
  if (c_.op == Op::broadcast) return window_.reached(Stage::written, round, c_.root);
  return window_.all_reached(Stage::written, round);
}

void ShmFlight::check_signatures() const {
  const std::uint64_t own = signature_of(c_, base_);
  for (int r = 0; r < window_.size(); ++r) {
    if (c_.op == Op::broadcast && r != c_.root) continue;  // the other ranks may be late
    if (window_.notice(r, base_).signature != own) throw_other_collective(c_, r);
  }
}

}  // namespace shardmark
