// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <fmt/format.h>

#include <comm/collective.hpp>
#include <comm/local_reduction.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_flight.hpp>
#include <core/error.hpp>

namespace shardmark {

MpiFlight::MpiFlight(const Collective& c, const Route& route, const MpiSite& site)
    : c_(c),
      route_(route),
      site_(site),
      in_place_(in_place(c, site.rank, site.size)),
      depth_(route.areas == 1 ? 1 : pieces_in_flight) {
  requests_.fill(MPI_REQUEST_NULL);
  if (c.scratch_bytes < route.scratch_bytes || (route.scratch_bytes > 0 && c.scratch == nullptr))
    throw CommError(
        fmt::format("{}: scratch of {} bytes: needs {}: bring what "
                    "collective_scratch_bytes says",
                    describe(c), c.scratch_bytes, route.scratch_bytes));
  shard_elems_ = c.elems / site.size;
  const Span last = route.pieces > 0 ? span(route.pieces - 1) : Span{0, 0};
  const RouteKind kind = route.kind;
  if (kind == RouteKind::all_gather || kind == RouteKind::ordered_reduce_scatter) {
    column_ = PieceType(c.dtype, route.piece_elems, shard_elems_);
    tail_column_ = PieceType(c.dtype, last.elems, shard_elems_);
  } else if (kind == RouteKind::ordered_all_reduce) {
    full_deal_elems_ = span(0).elems;
    make_deal(full_, full_deal_elems_);
    make_deal(tail_, last.elems);
  }
}

void MpiFlight::take_off() {
  if (route_.kind == RouteKind::local) copy_whole();
  issue();
}

bool MpiFlight::advance() {
  if (finished_ == issued_) return false;
  int complete = 0;
  SHARDMARK_MPI(MPI_Test(&requests_[static_cast<std::size_t>(finished_ % pieces_in_flight)],
                         &complete, MPI_STATUS_IGNORE));
  if (!complete) return false;
  settle(step(finished_++));
  issue();
  return true;
}

void MpiFlight::issue() {
  while (issued_ < route_.steps() && issued_ - finished_ < depth_) {
    call(step(issued_), &requests_[static_cast<std::size_t>(issued_ % pieces_in_flight)]);
    ++issued_;
  }
}

// Two-call pieces side by side: first 0, first 1, second 0, first 2, second 1 …; one after the
// other where scratch has room for one only.
MpiFlight::Step MpiFlight::step(std::int64_t index) const {
  if (route_.steps_of_piece() == 1) return {index, false};
  if (depth_ == 1) return {index / 2, index % 2 == 1};
  if (index == 0) return {0, false};
  if (index % 2 == 0) return {index / 2 - 1, true};
  const std::int64_t piece = (index + 1) / 2;
  return piece < route_.pieces ? Step{piece, false} : Step{route_.pieces - 1, true};
}

MpiFlight::Span MpiFlight::span(std::int64_t piece) const {
  // A piece of an ordered all_reduce has a part of every rank, one after the other.
  const bool dealt = route_.kind == RouteKind::ordered_all_reduce;
  const std::int64_t whole = dealt ? c_.elems : route_.part_elems;
  const std::int64_t stride = dealt ? route_.piece_elems * site_.size : route_.piece_elems;
  const std::int64_t first = piece * stride;
  return {first, std::min(stride, whole - first)};
}

void MpiFlight::make_deal(Deal& deal, std::int64_t elems) const {
  const auto bound = [&](int r) { return static_cast<int>(elems * r / site_.size); };
  const int mine = bound(site_.rank + 1) - bound(site_.rank);
  for (int r = 0; r < site_.size; ++r) {
    deal.displs.push_back(bound(r));
    deal.counts.push_back(bound(r + 1) - bound(r));
    deal.recv_displs.push_back(r * mine);
    deal.recv_counts.push_back(mine);
  }
}

void* MpiFlight::area(std::int64_t piece) const {
  const std::int64_t area_bytes = route_.scratch_bytes / route_.areas;
  return static_cast<char*>(c_.scratch) + piece % route_.areas * area_bytes;
}

void MpiFlight::pack(const Span& s, void* area) const {
  const auto bytes = static_cast<std::size_t>(s.elems * dtype_bytes(c_.dtype));
  for (int r = 0; r < site_.size; ++r)
    std::memcpy(static_cast<char*>(area) + static_cast<std::size_t>(r) * bytes,
                offset(c_.send, r * shard_elems_ + s.first, c_.dtype), bytes);
}

void MpiFlight::copy_whole() const {
  if (c_.elems > 0 && c_.send != nullptr && c_.send != c_.recv)
    std::memmove(c_.recv, c_.send, static_cast<std::size_t>(c_.elems * dtype_bytes(c_.dtype)));
}

void MpiFlight::call(const Step& step, MPI_Request* request) {
  const MPI_Comm comm = site_.comm;
  if (route_.kind == RouteKind::barrier) {
    SHARDMARK_MPI(MPI_Ibarrier(comm, request));
    return;
  }
  const Span s = span(step.piece);
  const int count = static_cast<int>(s.elems);
  const MPI_Datatype type = mpi_type(c_.dtype);
  const MPI_Op op = mpi_op(c_.reduction);
  const void* send = c_.send == nullptr ? nullptr : offset(c_.send, s.first, c_.dtype);
  void* recv = c_.recv == nullptr ? nullptr : offset(c_.recv, s.first, c_.dtype);
  const bool root = site_.rank == c_.root;
  switch (route_.kind) {
    case RouteKind::all_gather:
      SHARDMARK_MPI(MPI_Iallgather(in_place_ ? MPI_IN_PLACE : send, in_place_ ? 0 : count, type,
                                   recv, 1, column(s), comm, request));
      return;
    case RouteKind::all_reduce:
      SHARDMARK_MPI(
          MPI_Iallreduce(in_place_ ? MPI_IN_PLACE : send, recv, count, type, op, comm, request));
      return;
    case RouteKind::ordered_all_reduce: {
      const Deal& d = deal(s);
      if (step.second)
        SHARDMARK_MPI(MPI_Iallgatherv(MPI_IN_PLACE, 0, type, recv, d.counts.data(), d.displs.data(),
                                      type, comm, request));
      else
        SHARDMARK_MPI(MPI_Ialltoallv(send, d.counts.data(), d.displs.data(), type, area(step.piece),
                                     d.recv_counts.data(), d.recv_displs.data(), type, comm,
                                     request));
      return;
    }
    case RouteKind::reduce_scatter:
      // Packed: MPI wants the pieces of all ranks side by side.
      if (route_.pieces > 1 || in_place_) pack(s, area(step.piece)), send = area(step.piece);
      SHARDMARK_MPI(MPI_Ireduce_scatter_block(send, recv, count, type, op, comm, request));
      return;
    case RouteKind::ordered_reduce_scatter:
      SHARDMARK_MPI(
          MPI_Ialltoall(send, 1, column(s), area(step.piece), count, type, comm, request));
      return;
    case RouteKind::reduce:
      SHARDMARK_MPI(MPI_Ireduce(root && in_place_ ? MPI_IN_PLACE : send, recv, count, type, op,
                                c_.root, comm, request));
      return;
    case RouteKind::ordered_reduce:
      SHARDMARK_MPI(
          MPI_Igather(send, count, type, area(step.piece), count, type, c_.root, comm, request));
      return;
    case RouteKind::broadcast:
      SHARDMARK_MPI(
          MPI_Ibcast(root ? const_cast<void*>(send) : recv, count, type, c_.root, comm, request));
      return;
    default: return;
  }
}

void MpiFlight::settle(const Step& step) {
  if (route_.kind == RouteKind::barrier) return;
  const Span s = span(step.piece);
  void* recv = c_.recv == nullptr ? nullptr : offset(c_.recv, s.first, c_.dtype);
  const bool root = site_.rank == c_.root;
  const auto combine = [&](void* out, std::int64_t elems) {
    std::vector<const void*> rows;
    for (int r = 0; r < site_.size; ++r)
      rows.push_back(offset(area(step.piece), r * elems, c_.dtype));
    combine_in_rank_order(c_.dtype, c_.reduction, rows.data(), site_.size, out, elems);
  };
  switch (route_.kind) {
    case RouteKind::ordered_all_reduce: {
      if (step.second) return;
      const Deal& d = deal(s);
      const auto r = static_cast<std::size_t>(site_.rank);
      return combine(offset(recv, d.displs[r], c_.dtype), d.counts[r]);
    }
    case RouteKind::ordered_reduce_scatter: return combine(recv, s.elems);
    case RouteKind::ordered_reduce: return root ? combine(recv, s.elems) : void();
    case RouteKind::all_reduce:
    case RouteKind::reduce_scatter:
      if (c_.reduction == Reduction::average) divide(c_.dtype, recv, s.elems, site_.size);
      return;
    case RouteKind::reduce:
      if (root && c_.reduction == Reduction::average) divide(c_.dtype, recv, s.elems, site_.size);
      return;
    case RouteKind::broadcast:
      if (root && recv != nullptr && c_.send != c_.recv)
        std::memcpy(recv, offset(c_.send, s.first, c_.dtype),
                    static_cast<std::size_t>(s.elems * dtype_bytes(c_.dtype)));
      return;
    default: return;
  }
}

}  // namespace shardmark
