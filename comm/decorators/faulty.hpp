// SPDX-License-Identifier: Apache-2.0
// Makes communication wrong on purpose, so that a run can show that its checks see it
// (SHARDMARK_FAULT). It stands above the counters, as the mistakes of a program would.
#pragma once

#include <deque>
#include <map>
#include <vector>

#include <comm/decorators/forwarding.hpp>

namespace shardmark {

enum class CommFault : std::uint8_t {
  none,
  extra_call,  // all ranks: an all_reduce of one element before the chosen collective
  skip_wait,   // the chosen rank sees its old content where the collective should have put data
  flip_bit,    // the chosen rank's middle element comes with its highest mantissa bit flipped
  stale_shard  // the chosen rank's all_gather has the last rank's shard from the time before
};

/// Which collectives are hit. Counted are those that the fault can hit: any with elements for
/// extra_call; those that deliver data (not flags or lists) to this rank for skip_wait and
/// flip_bit; for stale_shard all_gathers whose name was gathered before. Must be the same on all
/// ranks of a communicator.
struct FaultChoice {
  CommFault fault = CommFault::none;
  int rank = 0;            // of the communicator; -1: none of it
  std::int64_t first = 1;  // the first one hit, from 1
  std::int64_t count = 1;  // how many in a row
};

/// Groups made by split are faulty where the chosen rank is in them, and count for themselves; an
/// extra call is made in all of them.
class FaultyCommunicator : public ForwardingCommunicator {
 public:
  FaultyCommunicator(std::unique_ptr<Communicator> inner, const FaultChoice& choice)
      : ForwardingCommunicator(std::move(inner)), choice_(choice) {}
  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override;
  void wait(Ticket ticket) override;
  std::unique_ptr<Communicator> split(int color, int key) override;
  /// How many collectives were hit so far on this rank.
  std::int64_t hits() const { return hits_; }

 private:
  struct Open {
    Ticket ticket;  // ours
    Collective c;
    std::vector<std::byte> before;  // skip_wait: the receive buffer as it was
  };
  Ticket inner_ticket(Ticket ticket) const;
  void make_extra_call();
  bool counts(const Collective& c) const;
  bool chosen();
  void deliver(Ticket up_to);
  void spoil(const Open& open);
  void flip_bit(const Collective& c) const;
  void swap_shard(const Collective& c);
  bool keeps_open(const Collective& c) const;

  FaultChoice choice_;
  std::int64_t seen_ = 0, hits_ = 0;
  Ticket last_ = 0;
  Ticket before_ours_ = 0;            // that the communicator beneath gave out before ours
  std::vector<Ticket> extra_before_;  // our tickets that an extra call went ahead of
  std::int32_t extra_ = 0;
  std::deque<Open> open_;
  std::map<std::string, std::vector<std::byte>, std::less<>> last_shard_;  // by collective's name
};

}  // namespace shardmark
