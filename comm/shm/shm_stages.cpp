// SPDX-License-Identifier: Apache-2.0
// The data movement in each stage of a round (ShmFlight).
#include <algorithm>

#include <comm/collective.hpp>
#include <comm/local_reduction.hpp>
#include <comm/shm/shm_flight.hpp>

namespace shardmark {

Part ShmFlight::piece(std::uint64_t round) const {
  const std::int64_t first = static_cast<std::int64_t>(round) * rounds_plan_.piece_elems;
  return {first, std::min(rounds_plan_.piece_elems, rounds_plan_.part_elems - first)};
}

// The elements of a piece that `rank` reduces, counted from the first element of the piece.
Part ShmFlight::share(const Part& piece, int rank) const {
  const auto bound = [&](int r) { return piece.elems * r / window_.size(); };
  return {bound(rank), bound(rank + 1) - bound(rank)};
}

void* ShmFlight::buffer(int rank, std::uint64_t round, std::int64_t first) const {
  return offset(window_.buffer(rank, base_ + round), first, c_.dtype);
}

void ShmFlight::put(std::uint64_t round, std::int64_t to, std::int64_t from,
                    std::int64_t elems) const {
  moved_.send(elems, c_.dtype);
  if (elems > 0)
    copy_elems(buffer(window_.rank(), round, to), offset(c_.send, from, c_.dtype), elems, c_.dtype);
}

void ShmFlight::deliver(std::int64_t to, const void* from, std::int64_t elems) const {
  moved_.receive(elems, c_.dtype);
  copy_elems(offset(c_.recv, to, c_.dtype), from, elems, c_.dtype);
}

// Makes elements available to the other ranks: copies them into the buffer or publishes their
// address.
void ShmFlight::offer(std::int64_t from, std::int64_t elems) const {
  if (!rounds_plan_.direct) return put(written_, 0, from, elems);
  moved_.send(elems, c_.dtype);
  window_.notice(window_.rank(), base_ + written_).address =
      reinterpret_cast<std::uintptr_t>(offset(c_.send, from, c_.dtype));
}

void ShmFlight::fetch(std::int64_t to, int rank, std::int64_t elems) const {
  if (!rounds_plan_.direct) return deliver(to, buffer(rank, read_, 0), elems);
  peers_.read(rank, window_.notice(rank, base_ + read_).address, offset(c_.recv, to, c_.dtype),
              elems * dtype_bytes(c_.dtype));
  moved_.receive(elems, c_.dtype);
}

void ShmFlight::write() {
  const Part p = piece(written_);
  const int rank = window_.rank();
  switch (c_.op) {
    case Op::all_gather:
      offer(p.first, p.elems);
      deliver(rank * shard_elems() + p.first, offset(c_.send, p.first, c_.dtype), p.elems);
      return;
    case Op::broadcast:
      if (rank != c_.root) return;
      offer(p.first, p.elems);
      if (c_.recv != nullptr) deliver(p.first, offset(c_.send, p.first, c_.dtype), p.elems);
      return;
    case Op::all_to_all:
      for (int r = 0; r < window_.size(); ++r) {
        const Part part = sent_part(c_, r, window_.size()).piece(p.first, p.elems);
        if (r != rank) {
          put(written_, r * rounds_plan_.piece_elems, part.first, part.elems);
        } else {
          moved_.send(part.elems, c_.dtype);
          deliver(received_part(c_, r, window_.size()).first + p.first,
                  offset(c_.send, part.first, c_.dtype), part.elems);
        }
      }
      return;
    case Op::reduce_scatter:
      for (int r = 0; r < window_.size(); ++r)
        if (r != rank)
          put(written_, r * rounds_plan_.piece_elems, r * shard_elems() + p.first, p.elems);
      return;
    case Op::all_reduce:
    case Op::reduce: {
      if (rounds_plan_.small) return put(written_, 0, 0, p.elems);
      // Everything except this rank's own share.
      const Part own = share(p, rank);
      put(written_, 0, p.first, own.first);
      put(written_, own.end(), p.first + own.end(), p.elems - own.end());
      return;
    }
    default: return;
  }
}

void ShmFlight::reduce() {
  const Part p = piece(reduced_);
  const Part own = share(p, window_.rank());
  combine(reduced_, own.first, p.first + own.first, own.elems, p.first + own.first, true);
}

void ShmFlight::read() {
  const Part p = piece(read_);
  const int rank = window_.rank(), size = window_.size();
  switch (c_.op) {
    case Op::all_gather:
      for (int k = 1; k < size; ++k) {  // each rank starts at a different one
        const int from = (rank + k) % size;
        fetch(from * shard_elems() + p.first, from, p.elems);
      }
      return;
    case Op::broadcast:
      if (rank != c_.root) fetch(p.first, c_.root, p.elems);
      return;
    case Op::all_to_all:
      for (int k = 1; k < size; ++k) {
        const int from = (rank + k) % size;
        const Part part = received_part(c_, from, size).piece(p.first, p.elems);
        deliver(part.first, buffer(from, read_, rank * rounds_plan_.piece_elems), part.elems);
      }
      return;
    case Op::reduce_scatter:
      return combine(read_, rank * rounds_plan_.piece_elems, rank * shard_elems() + p.first,
                     p.elems, p.first, false);
    case Op::all_reduce:
    case Op::reduce:
      if (rounds_plan_.small) return combine(read_, 0, 0, p.elems, 0, false);
      if (!receives_) return;
      for (int k = 1; k < size; ++k) {
        const int from = (rank + k) % size;
        const Part theirs = share(p, from);
        deliver(p.first + theirs.first, buffer(result_holder(from), read_, theirs.first),
                theirs.elems);
      }
      return;
    default: return;
  }
}

// Reduces `elems` elements, which begin at `in_buffers` in the buffers of the other ranks and at
// `in_send` in the send array, into the receive array at `to`. With `for_others` the result goes to
// result_holder()'s buffer first, where the other ranks read it.
void ShmFlight::combine(std::uint64_t round, std::int64_t in_buffers, std::int64_t in_send,
                        std::int64_t elems, std::int64_t to, bool for_others) {
  const int rank = window_.rank(), size = window_.size();
  constexpr std::int64_t block_bytes = 8192;  // stays in the L1 cache until it is copied
  const std::int64_t block = for_others ? block_bytes / dtype_bytes(c_.dtype) : elems;
  for (std::int64_t i = 0; i < elems; i += block) {
    const std::int64_t n = std::min(block, elems - i);
    for (int r = 0; r < size; ++r)
      rows_[static_cast<std::size_t>(r)] =
          r == rank ? offset(c_.send, in_send + i, c_.dtype) : buffer(r, round, in_buffers + i);
    void* const result = for_others ? buffer(result_holder(rank), round, in_buffers + i)
                                    : offset(c_.recv, to + i, c_.dtype);
    combine_in_rank_order(c_.dtype, c_.reduction, rows_.data(), size, result, n);
    if (!rounds_plan_.small) moved_.send(n, c_.dtype);  // this rank's own contribution
    if (!for_others) moved_.receive(n, c_.dtype);
    if (for_others && receives_) deliver(to + i, result, n);
  }
}

}  // namespace shardmark
