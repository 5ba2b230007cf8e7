// SPDX-License-Identifier: Apache-2.0
#include <comm/collective.hpp>
#include <comm/shm/shm_flight.hpp>

namespace shardmark {
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
  if (written_ == rounds_plan_.rounds || written_ == read_ + window_.buffers()) return false;
  const std::uint64_t round = base_ + written_;  // reuses the buffer of round - `buffers`
  return round < window_.buffers() ||
         window_.all_reached(Stage::read, round + 1 - window_.buffers());
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
