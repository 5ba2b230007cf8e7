// SPDX-License-Identifier: Apache-2.0
// One collective in flight through a shared window (comm/shm/shm_window.hpp), split into rounds. In
// each round a rank writes what others need into its buffer, reduces its share of the contents of
// all buffers in rank order, and reads what it needs. It does so as far as the counters of the
// other ranks permit, and never waits. The sums are those of comm/local_reduction.hpp, so `native`
// and `ordered` give the same bits with this back-end.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <comm/collective.hpp>
#include <comm/shm/shared_mapping.hpp>
#include <comm/shm/shm_window.hpp>

namespace shardmark {

/// Up to this size an all_reduce is one round in which every rank computes the whole sum. The ranks
/// then wait for each other once instead of twice.
inline constexpr std::int64_t shm_small_bytes = 4096;

/// A piece that is read directly is this many times as long as a buffer.
inline constexpr std::int64_t shm_direct_buffers = 8;

/// The rounds of one collective.
struct ShmRounds {
  std::uint64_t rounds = 0;      // 0 for one rank or no elements, which needs only a copy
  std::int64_t part_elems = 0;   // what is split: a shard (all_gather, reduce_scatter) or the array
  std::int64_t piece_elems = 0;  // elements of the part per round
  bool small = false;            // an all_reduce in which every rank computes the whole sum
  bool direct = false;           // an all_gather or broadcast that does not use the buffers
  /// Whether a round has the middle stage, in which each rank reduces its share of the piece.
  bool reduces_by_share = false;
};

/// The limits that decide on the rounds: the bytes of a buffer, at least 8 per rank; and the bytes
/// of one rank from which on the other ranks read its memory directly, empty if they may not.
struct ShmLimits {
  std::int64_t buffer_bytes = 0;
  std::optional<std::int64_t> direct_bytes;
};

/// The rounds of `c` in a group of `size` ranks. Pure, and the same on all ranks because it reads
/// no addresses.
ShmRounds plan_shm_rounds(const Collective& c, int size, const ShmLimits& means);

/// The flight of ShmCommunicator's FlightQueue. No function is collective or blocks.
class ShmFlight {
 public:
  /// `window`, `peers` and `moved`, which counts what is moved, must outlive the flight.
  ShmFlight(const Collective& c, const ShmRounds& cut, ShmWindow& window, const PeerMemory& peers,
            Moved& moved);

  /// Reserves the rounds. Called once per flight, in the order of the lane.
  void begin();
  /// Performs one stage of one round if the other ranks have come far enough; otherwise returns
  /// false. Throws CommError when another rank is in a different collective.
  bool advance();
  /// A rank whose memory the others read directly is done only after they have read it.
  bool done() const {
    return read_ == rounds_plan_.rounds &&
           (!rounds_plan_.direct || window_.all_reached(Stage::read, base_ + rounds_plan_.rounds));
  }

 private:
  using Stage = ShmWindow::Stage;

  bool may_write() const;
  bool may_reduce() const;
  bool may_read() const;
  void write();
  void reduce();
  void read();
  void check_signatures() const;
  void combine(std::uint64_t round, std::int64_t in_buffers, std::int64_t in_send,
               std::int64_t elems, std::int64_t to, bool for_others);

  Part piece(std::uint64_t round) const;
  Part share(const Part& piece, int rank) const;
  std::int64_t shard_elems() const { return c_.elems / window_.size(); }
  void* buffer(int rank, std::uint64_t round, std::int64_t first) const;
  /// The rank whose buffer holds the result of `rank`'s share. The result replaces that rank's
  /// contribution, whose cache lines were just read; a buffer of `rank` itself would have to be
  /// fetched first.
  int result_holder(int rank) const { return (rank + 1) % window_.size(); }
  void offer(std::int64_t from, std::int64_t elems) const;
  void fetch(std::int64_t to, int rank, std::int64_t elems) const;
  void put(std::uint64_t round, std::int64_t to, std::int64_t from, std::int64_t elems) const;
  void deliver(std::int64_t to, const void* from, std::int64_t elems) const;

  Collective c_;
  ShmRounds rounds_plan_;
  ShmWindow& window_;
  const PeerMemory& peers_;
  Moved& moved_;
  bool receives_;
  std::vector<const void*> rows_;
  std::uint64_t base_ = 0;                              // rounds of all earlier collectives
  std::uint64_t written_ = 0, reduced_ = 0, read_ = 0;  // rounds whose stage this rank finished
};

}  // namespace shardmark
