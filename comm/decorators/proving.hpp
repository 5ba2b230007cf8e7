// SPDX-License-Identifier: Apache-2.0
// Proves what collectives delivered (comm/proof): folds the buffers of each collective before it
// starts and after it is done. It is the outermost decorator, so that it sees what the program
// sees, injected faults included. Between proved steps it costs one branch per call.
#pragma once

#include <deque>

#include <comm/decorators/forwarding.hpp>
#include <comm/proof/proof.hpp>

namespace shardmark {

/// A communicator that passes every call on to `inner` and proves, in the steps that `proof` has
/// begun, that the collectives delivered what was sent.
class ProvingCommunicator : public DeliveringCommunicator {
 public:
  /// Collective. `lane` connects the same ranks as `inner` and carries the folds; nothing else may
  /// use it between Proof::begin and the return of Proof::end. `lane` and `proof` must outlive this
  /// communicator and its splits.
  ProvingCommunicator(std::unique_ptr<Communicator> inner, Communicator& lane, Proof& proof);
  ~ProvingCommunicator() override;
  Ticket start(const Collective& c) override;
  bool holds_compute(Ticket ticket) override;
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  friend class Proof;
  struct Open {
    Ticket ticket;
    std::size_t number;  // in the group's proof
  };
  ProvingCommunicator(std::unique_ptr<Communicator> inner, std::unique_ptr<Communicator> lane,
                      Proof& proof);
  void deliver(Ticket up_to) override;
  void make_room();
  void settle();

  std::unique_ptr<Communicator> own_lane_;  // of a split
  Communicator& lane_;
  Proof& proof_;
  GroupProof& group_;
  std::deque<Open> open_;
};

}  // namespace shardmark
