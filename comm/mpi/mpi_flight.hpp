// SPDX-License-Identifier: Apache-2.0
// One collective in flight: a fixed sequence of non-blocking MPI calls (see mpi_calls.hpp), each
// followed by local work: sums, a division or a copy. At most `pieces_in_flight` calls are open.
// The next call is made exactly when the local work of the second-last call is complete, so all
// ranks make the same calls in the same order, whatever their timing.
#pragma once

#include <array>
#include <vector>

#include <mpi.h>

#include <comm/collective.hpp>
#include <comm/mpi/mpi_calls.hpp>
#include <comm/mpi/mpi_types.hpp>

namespace shardmark {

/// The group in which a collective takes place.
struct MpiGroup {
  MPI_Comm comm = MPI_COMM_NULL;
  int rank = 0, size = 1;
};

/// The flight of MpiCommunicator's FlightQueue. It uses MPI but is not collective by itself.
class MpiFlight {
 public:
  /// Makes no MPI call yet. `moved`, which counts what is given to MPI and what comes from it, must
  /// outlive the flight. Throws CommError when the scratch of `c` is too small.
  MpiFlight(const Collective& c, const Route& route, const MpiGroup& group, Moved& moved);

  /// Makes the first calls. The flight must not be moved afterwards. Throws CommError.
  void begin();
  /// Tests the oldest open call; true when it was complete and its local work is done.
  bool advance();
  bool done() const { return finished_ == route_.steps(); }

 private:
  struct Step {
    std::int64_t piece;
    bool second;  // the all-gather of an ordered all_reduce; false for every other call
  };
  // How a piece of an ordered all_reduce is divided: rank r sums counts[r] elements from displs[r].
  struct Shares {
    std::vector<int> counts, displs, recv_counts, recv_displs;
  };

  Step step(std::int64_t index) const;
  Part span(std::int64_t piece) const;  // of the part that is split into pieces
  void make_shares(Shares& shares, std::int64_t elems) const;
  const Shares& shares(const Part& s) const {
    return s.elems == full_shares_elems_ ? full_ : tail_;
  }
  MPI_Datatype column(const Part& s) const {
    return (s.elems == route_.piece_elems ? column_ : tail_column_).get();
  }
  void issue();
  void call(const Step& step, MPI_Request* request);
  void finish_step(const Step& step);
  void pack(const Part& s, void* area) const;
  void* area(std::int64_t piece) const;
  const Shares& make_parts(std::int64_t piece);
  void count(const Step& step, const Part& s);

  Collective c_;
  Route route_;
  MpiGroup group_;
  Moved& moved_;
  bool in_place_;
  int depth_;
  std::int64_t shard_elems_ = 0;
  std::int64_t full_shares_elems_ = 0;
  PieceType column_, tail_column_;
  Shares full_, tail_;
  std::array<Shares, pieces_in_flight> parts_;  // of the pieces in flight, if parts differ
  std::int64_t issued_ = 0, finished_ = 0;
  std::array<MPI_Request, pieces_in_flight> requests_;
};

}  // namespace shardmark
