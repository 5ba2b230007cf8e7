// SPDX-License-Identifier: Apache-2.0
#include <comm/decorators/delaying.hpp>
#include <core/clock.hpp>

namespace shardmark {

Ticket DelayingCommunicator::start(const Collective& c) {
  const std::int64_t at_ns = monotonic_ns() + delay_ns_;
  const Ticket ticket = inner().start(c);
  due_.push_back({ticket, at_ns});
  return ticket;
}

bool DelayingCommunicator::test(Ticket ticket) {
  if (!inner().test(ticket)) return false;
  const std::int64_t now = monotonic_ns();
  while (!due_.empty() && due_.front().ticket <= ticket && due_.front().at_ns <= now)
    due_.pop_front();
  return due_.empty() || due_.front().ticket > ticket;
}

void DelayingCommunicator::wait(Ticket ticket) {
  while (!test(ticket)) idle_.pause();
}

std::unique_ptr<Communicator> DelayingCommunicator::split(int color, int key) {
  return std::make_unique<DelayingCommunicator>(inner().split(color, key), delay_ns_, idle_);
}

}  // namespace shardmark
