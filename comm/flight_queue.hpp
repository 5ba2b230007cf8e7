// SPDX-License-Identifier: Apache-2.0
// The queue of a lane, in which only the oldest collective is active. So all ranks run the
// collectives in the same order without further agreement, and a caller may start several ahead.
#pragma once

#include <deque>
#include <utility>

#include <comm/collective.hpp>

namespace shardmark {

/// `Flight` is a collective in flight. It has `begin()`, called once when the flight becomes the
/// oldest; `advance()`, which makes progress without blocking and returns whether there was any;
/// and `done()`. Flights are never moved.
template<class Flight>
class FlightQueue {
 public:
  /// Constructs a flight from `arguments` and queues it. Never blocks.
  template<class... Arguments>
  Ticket start(Arguments&&... arguments) {
    queue_.emplace_back(std::forward<Arguments>(arguments)...);
    ++started_;
    if (queue_.size() == 1) {
      queue_.front().begin();
      advance();  // a collective that needs no communication is done at once
    }
    return started_;
  }

  /// True when `ticket` and all before it are done. Throws CommError for an unknown ticket.
  bool test(Ticket ticket) {
    require_started(ticket, started_);
    while (done_ < ticket && advance()) {
    }
    return done_ >= ticket;
  }

  void progress() {
    while (advance()) {
    }
  }

  bool empty() const { return queue_.empty(); }
  /// The ticket that was started last, 0 before the first.
  Ticket last() const { return started_; }

 private:
  // Advances the oldest flight once; true when there was progress.
  bool advance() {
    if (queue_.empty()) return false;
    bool moved = queue_.front().advance();
    while (queue_.front().done()) {
      moved = true;
      ++done_;
      queue_.pop_front();
      if (queue_.empty()) break;
      queue_.front().begin();
    }
    return moved;
  }

  std::deque<Flight> queue_;
  Ticket started_ = 0, done_ = 0;
};

}  // namespace shardmark
