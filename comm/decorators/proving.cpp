// SPDX-License-Identifier: Apache-2.0

#include <comm/decorators/proving.hpp>

namespace shardmark {
namespace {

// Folds beyond this are compared in the middle of a step, so that their memory stays bounded.
constexpr std::int64_t most_held_bytes = std::int64_t{32} << 20;

}  // namespace

ProvingCommunicator::ProvingCommunicator(std::unique_ptr<Communicator> inner, Communicator& lane,
                                         Proof& proof)
    : DeliveringCommunicator(std::move(inner)),
      lane_(lane),
      proof_(proof),
      group_(proof.add_group(lane_, backend())) {
  proof_.communicators_.push_back(this);
}

ProvingCommunicator::ProvingCommunicator(std::unique_ptr<Communicator> inner,
                                         std::unique_ptr<Communicator> lane, Proof& proof)
    : DeliveringCommunicator(std::move(inner)),
      own_lane_(std::move(lane)),
      lane_(*own_lane_),
      proof_(proof),
      group_(proof.add_group(lane_, backend())) {
  proof_.communicators_.push_back(this);
}

ProvingCommunicator::~ProvingCommunicator() {
  std::erase(proof_.communicators_, this);
}

// A rank that waits in the proof of a sum makes no progress with what is in flight, and another
// rank may wait for that before it comes to the same sum.
Ticket ProvingCommunicator::start(const Collective& c) {
  if (!proof_.on() || c.op == Op::barrier) return inner().start(c);
  make_room();
  if (group_.waits_for_all(c)) proof_.settle();
  std::size_t number = 0;
  {
    const Proof::Timer timer(proof_);
    number = group_.sent(c);
  }
  const Ticket ticket = inner().start(c);
  open_.push_back({ticket, number});
  return ticket;
}

// All ranks of the group come here at the same collective with the same folds.
void ProvingCommunicator::make_room() {
  if (group_.held_bytes() < most_held_bytes) return;
  settle();
  proof_.compare(group_);
}

void ProvingCommunicator::settle() {
  if (!open_.empty()) wait(open_.back().ticket);
}

void Proof::settle() {
  for (ProvingCommunicator* communicator : communicators_) communicator->settle();
}

void ProvingCommunicator::deliver(Ticket up_to) {
  for (; !open_.empty() && open_.front().ticket <= up_to; open_.pop_front()) {
    const Proof::Timer timer(proof_);
    group_.received(open_.front().number);
  }
}

// The results are folded before the program may use them, so the host has to see their end.
bool ProvingCommunicator::holds_compute(Ticket ticket) {
  return open_.empty() ? inner().holds_compute(ticket) : test(ticket);
}

std::unique_ptr<Communicator> ProvingCommunicator::split(int color, int key) {
  auto group = inner().split(color, key);
  auto lane = lane_.split(color, key);
  return std::unique_ptr<Communicator>(
      new ProvingCommunicator(std::move(group), std::move(lane), proof_));
}

}  // namespace shardmark
