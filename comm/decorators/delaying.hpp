// SPDX-License-Identifier: Apache-2.0
// Emulates a slower network: a collective is done no sooner than `delay_ns` after its start. Delays
// of several collectives run at the same time, so a schedule that overlaps hides them.
#pragma once

#include <deque>

#include <comm/decorators/forwarding.hpp>
#include <comm/idle.hpp>
#include <core/clock.hpp>

namespace shardmark {

/// The decorator that adds the delay, in nanoseconds; `idle` says how `wait` pauses.
class DelayingCommunicator : public ForwardingCommunicator {
 public:
  DelayingCommunicator(std::unique_ptr<Communicator> inner, std::int64_t delay_ns, Idle idle)
      : ForwardingCommunicator(std::move(inner)), delay_ns_(delay_ns), idle_(idle) {}
  Ticket start(const Collective& c) override {
    const std::int64_t at_ns = monotonic_ns() + delay_ns_;
    const Ticket ticket = inner().start(c);
    due_.push_back({ticket, at_ns});
    return ticket;
  }
  bool test(Ticket ticket) override {
    if (!inner().test(ticket)) return false;
    const std::int64_t now = monotonic_ns();
    while (!due_.empty() && due_.front().ticket <= ticket && due_.front().at_ns <= now)
      due_.pop_front();
    return due_.empty() || due_.front().ticket > ticket;
  }
  void wait(Ticket ticket) override {
    while (!test(ticket)) idle_.pause();
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<DelayingCommunicator>(inner().split(color, key), delay_ns_, idle_);
  }

 private:
  struct Due {
    Ticket ticket;
    std::int64_t at_ns;
  };
  std::int64_t delay_ns_;
  Idle idle_;
  std::deque<Due> due_;
};

}  // namespace shardmark
