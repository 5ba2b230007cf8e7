// SPDX-License-Identifier: Apache-2.0
// One collective under way: a fixed sequence of non-blocking MPI calls (route and cut of
// mpi_calls.hpp) and, after each, what is done locally: sums, a division, a copy. At most
// `pieces_in_flight` calls are open, and a call is made exactly when the one two before it has been
// dealt with; so all ranks make the same calls in the same order, whatever their timing.
#pragma once

#include <array>
#include <vector>

#include <mpi.h>

#include <comm/mpi/mpi_calls.hpp>
#include <comm/mpi/mpi_types.hpp>

namespace shardmark {

/// Where a collective happens.
struct MpiSite {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;
};

class MpiFlight {
 public:
  /// Local: makes no MPI communication yet.
  MpiFlight(const Collective& c, const Route& route, const MpiSite& site);

  /// Makes the first calls. The flight may not be moved from here on. Throws CommError.
  void take_off();
  /// Looks once at the oldest open call; true when it was complete and the flight got on.
  bool advance();
  bool done() const { return finished_ == route_.steps(); }

 private:
  struct Step {
    std::int64_t piece;
    bool second;  // the all-gather of an ordered all_reduce
  };
  struct Span {
    std::int64_t first, elems;  // of the part that is cut
  };
  // How a piece of an ordered all_reduce is dealt out: rank r sums counts[r] elements at displs[r].
  struct Deal {
    std::vector<int> counts, displs, recv_counts, recv_displs;
  };

  Step step(std::int64_t index) const;
  Span span(std::int64_t piece) const;
  void make_deal(Deal& deal, std::int64_t elems) const;
  const Deal& deal(const Span& s) const { return s.elems == full_deal_elems_ ? full_ : tail_; }
  MPI_Datatype column(const Span& s) const {
    return (s.elems == route_.piece_elems ? column_ : tail_column_).get();
  }
  void issue();
  void call(const Step& step, MPI_Request* request);
  void settle(const Step& step);
  void pack(const Span& s, void* area) const;
  void* area(std::int64_t piece) const;
  void copy_whole() const;

  Collective c_;
  Route route_;
  MpiSite site_;
  bool in_place_;
  int depth_;
  std::int64_t shard_elems_ = 0;
  std::int64_t full_deal_elems_ = 0;
  PieceType column_, tail_column_;
  Deal full_, tail_;
  std::int64_t issued_ = 0, finished_ = 0;
  std::array<MPI_Request, pieces_in_flight> requests_;
};

}  // namespace shardmark
