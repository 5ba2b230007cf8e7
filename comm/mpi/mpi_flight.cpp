// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>

#include <fmt/core.h>

#include <comm/collective.hpp>
#include <comm/local_reduction.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_flight.hpp>
#include <core/error.hpp>

namespace shardmark {

MpiFlight::MpiFlight(const Collective& c, const Route& route, const MpiGroup& group, Moved& moved)
    : c_(c),
      route_(route),
      group_(group),
      moved_(moved),
      in_place_(in_place(c, group.rank, group.size)),
      depth_(route.areas == 1 ? 1 : pieces_in_flight) {
  requests_.fill(MPI_REQUEST_NULL);
  if (c.scratch_bytes < route.scratch_bytes || (route.scratch_bytes > 0 && c.scratch == nullptr))
    throw CommError(
        fmt::format("{}: scratch = {} bytes: must be at least {}: provide what "
                    "collective_scratch_bytes returns",
                    describe(c), c.scratch_bytes, route.scratch_bytes));
  shard_elems_ = c.elems / group.size;
  const Part last = route.pieces > 0 ? span(route.pieces - 1) : Part{0, 0};
  const RouteKind kind = route.kind;
  if (kind == RouteKind::all_gather || kind == RouteKind::all_to_all ||
      kind == RouteKind::ordered_reduce_scatter) {
    column_ = PieceType(c.dtype, route.piece_elems, shard_elems_);
    tail_column_ = PieceType(c.dtype, last.elems, shard_elems_);
  } else if (kind == RouteKind::ordered_all_reduce) {
    full_shares_elems_ = span(0).elems;
    make_shares(full_, full_shares_elems_);
    make_shares(tail_, last.elems);
  }
}

void MpiFlight::begin() {
  if (route_.kind == RouteKind::local) copy_whole(c_, group_.rank, group_.size, moved_);
  issue();
}

bool MpiFlight::advance() {
  if (finished_ == issued_) return false;
  int complete = 0;
  SHARDMARK_MPI(MPI_Test(&requests_[static_cast<std::size_t>(finished_ % pieces_in_flight)],
                         &complete, MPI_STATUS_IGNORE));
  if (!complete) return false;
  finish_step(step(finished_++));
  issue();
  return true;
}

void MpiFlight::issue() {
  while (issued_ < route_.steps() && issued_ - finished_ < depth_) {
    call(step(issued_), &requests_[static_cast<std::size_t>(issued_ % pieces_in_flight)]);
    ++issued_;
  }
}

// The order of the steps when pieces have two calls: first 0, first 1, second 0, first 2, second 1
// …, so that two pieces are in progress. With scratch for one piece only: piece after piece.
MpiFlight::Step MpiFlight::step(std::int64_t index) const {
  if (route_.steps_of_piece() == 1) return {index, false};
  if (depth_ == 1) return {index / 2, index % 2 == 1};
  if (index == 0) return {0, false};
  if (index % 2 == 0) return {index / 2 - 1, true};
  const std::int64_t piece = (index + 1) / 2;
  return piece < route_.pieces ? Step{piece, false} : Step{route_.pieces - 1, true};
}

Part MpiFlight::span(std::int64_t piece) const {
  // A piece of an ordered all_reduce contains a part of every rank, one after the other.
  const bool ordered_all_reduce = route_.kind == RouteKind::ordered_all_reduce;
  const std::int64_t whole = ordered_all_reduce ? c_.elems : route_.part_elems;
  const std::int64_t stride =
      ordered_all_reduce ? route_.piece_elems * group_.size : route_.piece_elems;
  const std::int64_t first = piece * stride;
  return {first, std::min(stride, whole - first)};
}

void MpiFlight::make_shares(Shares& shares, std::int64_t elems) const {
  const auto bound = [&](int r) { return static_cast<int>(elems * r / group_.size); };
  const int mine = bound(group_.rank + 1) - bound(group_.rank);
  for (int r = 0; r < group_.size; ++r) {
    shares.displs.push_back(bound(r));
    shares.counts.push_back(bound(r + 1) - bound(r));
    shares.recv_displs.push_back(r * mine);
    shares.recv_counts.push_back(mine);
  }
}

void* MpiFlight::area(std::int64_t piece) const {
  const std::int64_t area_bytes = route_.scratch_bytes / route_.areas;
  return static_cast<char*>(c_.scratch) + piece % route_.areas * area_bytes;
}

void MpiFlight::pack(const Part& s, void* area) const {
  for (int r = 0; r < group_.size; ++r)
    copy_elems(offset(area, r * s.elems, c_.dtype),
               offset(c_.send, r * shard_elems_ + s.first, c_.dtype), s.elems, c_.dtype);
}

// What a step gives to MPI, and what it puts into the receive buffer. The first calls of sums in
// rank order fill scratch; this rank's part of the result is made from it.
void MpiFlight::count(const Step& step, const Part& s) {
  if (route_.kind == RouteKind::all_to_all_parts) {
    const Shares& parts = parts_[static_cast<std::size_t>(step.piece % pieces_in_flight)];
    for (const int elems : parts.counts) moved_.send(elems, c_.dtype);
    for (const int elems : parts.recv_counts) moved_.receive(elems, c_.dtype);
    return;
  }
  Collective piece = c_;
  piece.elems = has_parts(c_.op) ? s.elems * group_.size : s.elems;
  if (!step.second) moved_.send(sent_elems(piece, group_.rank, group_.size), c_.dtype);
  if (step.second || route_.kind != RouteKind::ordered_all_reduce)
    moved_.receive(received_elems(piece, group_.rank, group_.size), c_.dtype);
}

// What a piece has of each part. Beginnings count from the whole buffers, since parts differ.
const MpiFlight::Shares& MpiFlight::make_parts(std::int64_t piece) {
  Shares& parts = parts_[static_cast<std::size_t>(piece % pieces_in_flight)];
  parts = {};
  const Part s = span(piece);
  const auto add = [&](const Part& part, std::vector<int>& counts, std::vector<int>& displs) {
    if (part.first > std::numeric_limits<int>::max())
      throw CommError(
          fmt::format("{}: elems: MPI reaches parts only within the first {} elements "
                      "of a buffer: use another comm.backend",
                      describe(c_), std::numeric_limits<int>::max()));
    counts.push_back(static_cast<int>(part.elems));
    displs.push_back(part.elems > 0 ? static_cast<int>(part.first) : 0);
  };
  for (int r = 0; r < group_.size; ++r) {
    add(sent_part(c_, r, group_.size).piece(s.first, s.elems), parts.counts, parts.displs);
    add(received_part(c_, r, group_.size).piece(s.first, s.elems), parts.recv_counts,
        parts.recv_displs);
  }
  return parts;
}

void MpiFlight::call(const Step& step, MPI_Request* request) {
  const MPI_Comm comm = group_.comm;
  if (route_.kind == RouteKind::barrier) return SHARDMARK_MPI(MPI_Ibarrier(comm, request));
  const Part s = span(step.piece);
  const int count = static_cast<int>(s.elems);
  const MPI_Datatype type = mpi_type(c_.dtype);
  const MPI_Op op = mpi_op(c_.reduction);
  const void* send = c_.send == nullptr ? nullptr : offset(c_.send, s.first, c_.dtype);
  void* recv = c_.recv == nullptr ? nullptr : offset(c_.recv, s.first, c_.dtype);
  const bool root = group_.rank == c_.root;
  switch (route_.kind) {
    case RouteKind::all_gather:
      return SHARDMARK_MPI(MPI_Iallgather(in_place_ ? MPI_IN_PLACE : send, in_place_ ? 0 : count,
                                          type, recv, 1, column(s), comm, request));
    case RouteKind::all_to_all:
      return SHARDMARK_MPI(MPI_Ialltoall(send, 1, column(s), recv, 1, column(s), comm, request));
    case RouteKind::all_to_all_parts: {
      const Shares& p = make_parts(step.piece);
      return SHARDMARK_MPI(MPI_Ialltoallv(c_.send, p.counts.data(), p.displs.data(), type, c_.recv,
                                          p.recv_counts.data(), p.recv_displs.data(), type, comm,
                                          request));
    }
    case RouteKind::all_reduce:
      return SHARDMARK_MPI(
          MPI_Iallreduce(in_place_ ? MPI_IN_PLACE : send, recv, count, type, op, comm, request));
    case RouteKind::ordered_all_reduce: {
      const Shares& d = shares(s);
      if (step.second)
        return SHARDMARK_MPI(MPI_Iallgatherv(MPI_IN_PLACE, 0, type, recv, d.counts.data(),
                                             d.displs.data(), type, comm, request));
      return SHARDMARK_MPI(MPI_Ialltoallv(send, d.counts.data(), d.displs.data(), type,
                                          area(step.piece), d.recv_counts.data(),
                                          d.recv_displs.data(), type, comm, request));
    }
    case RouteKind::reduce_scatter:
      // MPI expects the pieces of all ranks side by side, so they are packed into scratch.
      if (route_.pieces > 1 || in_place_) pack(s, area(step.piece)), send = area(step.piece);
      return SHARDMARK_MPI(MPI_Ireduce_scatter_block(send, recv, count, type, op, comm, request));
    case RouteKind::ordered_reduce_scatter:
      return SHARDMARK_MPI(
          MPI_Ialltoall(send, 1, column(s), area(step.piece), count, type, comm, request));
    case RouteKind::reduce:
      return SHARDMARK_MPI(MPI_Ireduce(root && in_place_ ? MPI_IN_PLACE : send, recv, count, type,
                                       op, c_.root, comm, request));
    case RouteKind::ordered_reduce:
      return SHARDMARK_MPI(
          MPI_Igather(send, count, type, area(step.piece), count, type, c_.root, comm, request));
    case RouteKind::broadcast:
      return SHARDMARK_MPI(
          MPI_Ibcast(root ? const_cast<void*>(send) : recv, count, type, c_.root, comm, request));
    default: return;
  }
}

void MpiFlight::finish_step(const Step& step) {
  if (route_.kind == RouteKind::barrier) return;
  const Part s = span(step.piece);
  count(step, s);
  void* recv = c_.recv == nullptr ? nullptr : offset(c_.recv, s.first, c_.dtype);
  const bool root = group_.rank == c_.root;
  const auto combine = [&](void* out, std::int64_t elems) {
    std::vector<const void*> rows;
    rows.reserve(static_cast<std::size_t>(group_.size));
    for (int r = 0; r < group_.size; ++r)
      rows.push_back(offset(area(step.piece), r * elems, c_.dtype));
    combine_in_rank_order(c_.dtype, c_.reduction, rows.data(), group_.size, out, elems);
  };
  switch (route_.kind) {
    case RouteKind::ordered_all_reduce: {
      if (step.second) return;
      const Shares& d = shares(s);
      const auto r = static_cast<std::size_t>(group_.rank);
      return combine(offset(recv, d.displs[r], c_.dtype), d.counts[r]);
    }
    case RouteKind::ordered_reduce_scatter: return combine(recv, s.elems);
    case RouteKind::ordered_reduce: return root ? combine(recv, s.elems) : void();
    case RouteKind::all_reduce:
    case RouteKind::reduce_scatter:
      if (c_.reduction == Reduction::average) divide(c_.dtype, recv, s.elems, group_.size);
      return;
    case RouteKind::reduce:
      if (root && c_.reduction == Reduction::average) divide(c_.dtype, recv, s.elems, group_.size);
      return;
    case RouteKind::broadcast:
      if (root && recv != nullptr)
        copy_elems(recv, offset(c_.send, s.first, c_.dtype), s.elems, c_.dtype);
      return;
    default: return;
  }
}

}  // namespace shardmark
