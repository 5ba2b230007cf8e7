// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <comm/combine.hpp>
#include <comm/shm_flight.hpp>
#include <comm/validate.hpp>
#include <core/error.hpp>

namespace shardmark {
namespace {

// What must be the same on all ranks, in one word.
std::uint64_t signature_of(const Collective& c) {
  std::uint64_t hash = 0;
  for (const std::uint64_t part :
       {static_cast<std::uint64_t>(c.op), static_cast<std::uint64_t>(c.dtype),
        static_cast<std::uint64_t>(c.reduction), static_cast<std::uint64_t>(c.root),
        static_cast<std::uint64_t>(c.elems)}) {
    hash = (hash ^ part) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace

ShmFlight::ShmFlight(const Collective& c, const ShmCut& cut, ShmWindow& window)
    : c_(c),
      cut_(cut),
      window_(window),
      receives_(c.op != Op::reduce || c.root == window.rank()),
      rows_(static_cast<std::size_t>(window.size())) {
  if (c.op == Op::barrier) c_.elems = 0;
}

void ShmFlight::take_off() {
  base_ = window_.take_rounds(cut_.rounds);
  const bool whole = cut_.rounds == 0 && c_.elems > 0 && c_.send != nullptr;
  if (whole && c_.send != c_.recv)
    std::memmove(c_.recv, c_.send, static_cast<std::size_t>(c_.elems * dtype_bytes(c_.dtype)));
}

// What is furthest on comes first: it frees buffers, and its data are still in the caches.
bool ShmFlight::advance() {
  if (may_read()) {
    read();
    window_.publish(Stage::read, base_ + ++read_);
  } else if (may_reduce()) {
    reduce();
    window_.publish(Stage::reduced, base_ + ++reduced_);
  } else if (may_write()) {
    write();
    window_.publish(Stage::written, base_ + ++written_);
  } else {
    return false;
  }
  return true;
}

bool ShmFlight::may_write() const {
  if (written_ == cut_.rounds || written_ == read_ + window_.buffers) return false;
  const std::uint64_t round = base_ + written_;  // takes the buffer of the one `buffers` before
  return round < window_.buffers || window_.all_reached(Stage::read, round + 1 - window_.buffers);
}

bool ShmFlight::may_reduce() const {
  return cut_.reduces_by_share && reduced_ < written_ &&
         window_.all_reached(Stage::written, base_ + reduced_ + 1);
}

bool ShmFlight::may_read() const {
  const std::uint64_t round = base_ + read_ + 1;
  if (cut_.reduces_by_share)
    return read_ < reduced_ && (!receives_ || window_.all_reached(Stage::reduced, round));
  if (read_ == written_) return false;
  if (c_.op == Op::broadcast) return window_.reached(Stage::written, round, c_.root);
  return window_.all_reached(Stage::written, round);
}

ShmFlight::Span ShmFlight::piece(std::uint64_t round) const {
  const std::int64_t first = static_cast<std::int64_t>(round) * cut_.piece_elems;
  return {first, std::min(cut_.piece_elems, cut_.part_elems - first)};
}

// Of the elements of a piece, those that `rank` reduces; counted from the piece's first.
ShmFlight::Span ShmFlight::share(const Span& piece, int rank) const {
  const auto bound = [&](int r) { return piece.elems * r / window_.size(); };
  return {bound(rank), bound(rank + 1) - bound(rank)};
}

void* ShmFlight::buffer(int rank, std::uint64_t round, std::int64_t first) const {
  return offset(window_.buffer(rank, base_ + round), first, c_.dtype);
}

void ShmFlight::put(std::uint64_t round, std::int64_t to, std::int64_t from,
                    std::int64_t elems) const {
  const auto bytes = static_cast<std::size_t>(elems * dtype_bytes(c_.dtype));
  if (bytes > 0)
    std::memcpy(buffer(window_.rank(), round, to), offset(c_.send, from, c_.dtype), bytes);
}

void ShmFlight::deliver(std::int64_t to, const void* from, std::int64_t elems) const {
  const auto bytes = static_cast<std::size_t>(elems * dtype_bytes(c_.dtype));
  void* const into = offset(c_.recv, to, c_.dtype);
  if (bytes > 0 && into != from) std::memcpy(into, from, bytes);
}

void ShmFlight::write() {
  if (written_ == 0) window_.signature(window_.rank(), base_) = signature_of(c_);
  const Span p = piece(written_);
  const int rank = window_.rank();
  switch (c_.op) {
    case Op::all_gather:
      put(written_, 0, p.first, p.elems);
      deliver(rank * shard_elems() + p.first, offset(c_.send, p.first, c_.dtype), p.elems);
      return;
    case Op::broadcast:
      if (rank != c_.root) return;
      put(written_, 0, p.first, p.elems);
      if (c_.recv != nullptr) deliver(p.first, offset(c_.send, p.first, c_.dtype), p.elems);
      return;
    case Op::reduce_scatter:
      for (int r = 0; r < window_.size(); ++r)
        if (r != rank) put(written_, r * cut_.piece_elems, r * shard_elems() + p.first, p.elems);
      return;
    case Op::all_reduce:
    case Op::reduce: {
      if (cut_.small) return put(written_, 0, 0, p.elems);
      // All but this rank's own share, whose place will hold its result.
      const Span own = share(p, rank);
      const std::int64_t after = own.first + own.elems;
      put(written_, 0, p.first, own.first);
      put(written_, after, p.first + after, p.elems - after);
      return;
    }
    default: return;
  }
}

void ShmFlight::reduce() {
  if (reduced_ == 0) check_signatures();
  const Span p = piece(reduced_);
  const Span own = share(p, window_.rank());
  combine(reduced_, own.first, p.first + own.first, own.elems, p.first + own.first, true);
}

void ShmFlight::read() {
  if (read_ == 0 && !cut_.reduces_by_share) check_signatures();
  const Span p = piece(read_);
  const int rank = window_.rank(), size = window_.size();
  switch (c_.op) {
    case Op::all_gather:
      for (int k = 1; k < size; ++k) {  // not all from the same one at once
        const int from = (rank + k) % size;
        deliver(from * shard_elems() + p.first, buffer(from, read_, 0), p.elems);
      }
      return;
    case Op::broadcast:
      if (rank != c_.root) deliver(p.first, buffer(c_.root, read_, 0), p.elems);
      return;
    case Op::reduce_scatter:
      return combine(read_, rank * cut_.piece_elems, rank * shard_elems() + p.first, p.elems,
                     p.first, false);
    case Op::all_reduce:
    case Op::reduce:
      if (cut_.small) return combine(read_, 0, 0, p.elems, 0, false);
      if (!receives_) return;
      for (int k = 1; k < size; ++k) {
        const int from = (rank + k) % size;
        const Span theirs = share(p, from);
        deliver(p.first + theirs.first, buffer(from, read_, theirs.first), theirs.elems);
      }
      return;
    default: return;
  }
}

// Sums `elems` elements that lie from `in_buffers` in the others' buffers and from `in_send` here,
// to `to` of the received array and, for the others to read, to the same place of the own buffer.
void ShmFlight::combine(std::uint64_t round, std::int64_t in_buffers, std::int64_t in_send,
                        std::int64_t elems, std::int64_t to, bool for_others) {
  for (int r = 0; r < window_.size(); ++r)
    rows_[static_cast<std::size_t>(r)] =
        r == window_.rank() ? offset(c_.send, in_send, c_.dtype) : buffer(r, round, in_buffers);
  void* const published = buffer(window_.rank(), round, in_buffers);
  void* const result = receives_ ? offset(c_.recv, to, c_.dtype) : published;
  combine_in_rank_order(c_.dtype, c_.reduction, rows_.data(), window_.size(), result, elems);
  if (for_others && receives_)
    std::memcpy(published, result, static_cast<std::size_t>(elems * dtype_bytes(c_.dtype)));
}

void ShmFlight::check_signatures() const {
  const std::uint64_t own = signature_of(c_);
  for (int r = 0; r < window_.size(); ++r) {
    if (c_.op == Op::broadcast && r != c_.root) continue;  // the others may not have come yet
    if (window_.signature(r, base_) != own)
      throw CommError(
          fmt::format("{}: rank {} of the group is in another collective: all ranks "
                      "must start the same ones in the same order",
                      describe(c_), r));
  }
}

}  // namespace shardmark
