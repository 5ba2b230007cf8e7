// SPDX-License-Identifier: Apache-2.0
// Injects communication errors (SHARDMARK_FAULT), so that a run can prove that its checks detect
// them. This decorator wraps the counters, so an extra call is counted as the program's own would
// be.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include <comm/decorators/forwarding.hpp>

namespace shardmark {

/// What goes wrong.
enum class CommFault : std::uint8_t {
  none,
  extra_call,   // all ranks issue an all_reduce of one element before the chosen collective
  own_call,     // the chosen rank alone issues one of no elements, for which nobody waits
  fewer_elems,  // on all ranks, the last elements of each shard are not sent
  skip_wait,    // the chosen rank's receive buffer keeps its old content
  flip_bit,     // the highest mantissa bit of the middle element flips on the chosen rank
  stale_shard   // the chosen rank's all_gather returns the last rank's previous shard
};

/// Which collectives are affected. Only eligible collectives are counted: for extra_call and
/// own_call those with elements; for fewer_elems those that carry at least two elements per rank;
/// for skip_wait and flip_bit those that deliver data (no flags or lists) to this rank; for
/// stale_shard all_gathers whose name was gathered before. All ranks of a communicator must use the
/// same choice.
struct FaultChoice {
  CommFault fault = CommFault::none;
  int rank = 0;            // of the communicator; -1: no rank
  std::int64_t first = 1;  // the first eligible collective that is affected, counted from 1
  std::int64_t count = 1;  // how many in a row are affected
};

/// The decorator that injects the fault. Each group made by split counts separately; it is affected
/// if it contains the chosen rank. Extra calls are made in every group.
class FaultyCommunicator : public DeliveringCommunicator {
 public:
  FaultyCommunicator(std::unique_ptr<Communicator> inner, const FaultChoice& choice)
      : DeliveringCommunicator(std::move(inner)), choice_(choice) {}
  Ticket start(const Collective& c) override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  /// How many collectives have been affected so far on this rank.
  std::int64_t hits() const { return hits_; }

 private:
  struct Open {
    Ticket ticket;  // of this communicator
    Collective c;
    std::vector<std::byte> before;  // for skip_wait: the old content of the receive buffer
    Collective less = {};           // for fewer_elems: what is made instead, with these buffers
    std::vector<std::byte> sent = {}, got = {};
    std::vector<std::int64_t> parts = {};
  };
  Ticket inner_ticket(Ticket ticket) const override;
  void make_extra_call(std::int64_t elems);
  void shorten(Open& open) const;
  void deliver_shortened(const Open& open) const;
  bool eligible(const Collective& c) const;
  bool count_and_choose();
  void deliver(Ticket up_to) override;
  void corrupt(const Open& open);
  void flip_bit(const Collective& c) const;
  void restore_old_shard(const Collective& c);
  bool follows_shard(const Collective& c) const;

  FaultChoice choice_;
  std::int64_t seen_ = 0, hits_ = 0;
  Ticket last_ = 0;
  Ticket before_ours_ = 0;            // tickets that the inner communicator issued before ours
  std::vector<Ticket> extra_before_;  // our tickets that an extra call precedes
  std::int32_t extra_ = 0;
  std::deque<Open> open_;
  std::map<std::string, std::vector<std::byte>, std::less<>> last_shard_;  // by collective name
};

}  // namespace shardmark
