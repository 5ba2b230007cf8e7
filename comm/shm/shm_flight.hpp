// SPDX-License-Identifier: Apache-2.0
// One collective under way through a shared window, in the rounds of comm/shm/shm_rounds.hpp. Each
// rank writes what others need of it into its buffer, reduces its share of what lies in all
// buffers, in rank order, and reads what it needs; as far as the others' counters allow, and never
// waiting. Sums are those of comm/local_reduction.hpp, so `native` and `ordered` give the same bits
// here.
#pragma once

#include <vector>

#include <comm/shm/peer_memory.hpp>
#include <comm/shm/shm_rounds.hpp>
#include <comm/shm/shm_window.hpp>

namespace shardmark {

class ShmFlight {
 public:
  /// Local.
  ShmFlight(const Collective& c, const ShmCut& cut, ShmWindow& window, const PeerMemory& peers);

  /// Reserves the rounds: called once, in the order of the lane.
  void take_off();
  /// Does one stage of one round if the others are far enough; false when they are not. Throws
  /// CommError when another rank is in another collective.
  bool advance();
  /// A rank whose memory others read goes on only when they have.
  bool done() const {
    return read_ == cut_.rounds &&
           (!cut_.direct || window_.all_reached(Stage::read, base_ + cut_.rounds));
  }

 private:
  using Stage = ShmWindow::Stage;
  struct Span {
    std::int64_t first, elems;
  };

  bool may_write() const;
  bool may_reduce() const;
  bool may_read() const;
  void write();
  void reduce();
  void read();
  void check_signatures() const;
  void combine(std::uint64_t round, std::int64_t in_buffers, std::int64_t in_send,
               std::int64_t elems, std::int64_t to, bool for_others);

  Span piece(std::uint64_t round) const;
  Span share(const Span& piece, int rank) const;
  std::int64_t shard_elems() const { return c_.elems / window_.size(); }
  void* buffer(int rank, std::uint64_t round, std::int64_t first) const;
  /// In whose buffer the result of `rank`'s share lies: in place of that rank's contribution, a
  /// line that has just been fetched. In the own buffer it would be fetched for nothing.
  int holder(int rank) const { return (rank + 1) % window_.size(); }
  void offer(std::int64_t from, std::int64_t elems) const;
  void fetch(std::int64_t to, int rank, std::int64_t elems) const;
  void put(std::uint64_t round, std::int64_t to, std::int64_t from, std::int64_t elems) const;
  void deliver(std::int64_t to, const void* from, std::int64_t elems) const;

  Collective c_;
  ShmCut cut_;
  ShmWindow& window_;
  const PeerMemory& peers_;
  bool receives_;
  std::vector<const void*> rows_;
  std::uint64_t base_ = 0;                              // rounds before this collective
  std::uint64_t written_ = 0, reduced_ = 0, read_ = 0;  // rounds whose stage is behind this rank
};

}  // namespace shardmark
