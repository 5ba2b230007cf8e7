// SPDX-License-Identifier: Apache-2.0
// The queue of a lane, of which only the oldest collective is under way. So ranks agree on the
// order of what they do without talking, and several collectives may be started ahead.
#pragma once

#include <deque>
#include <string>
#include <utility>

#include <comm/communicator.hpp>
#include <core/error.hpp>

namespace shardmark {

/// `Flight`: `take_off()` once it is the oldest; `advance()` looks once and is true when something
/// moved; `done()`. A flight is not moved.
template<class Flight>
class FlightQueue {
 public:
  /// Makes the flight of `arguments`. Never blocks.
  template<class... Arguments>
  Ticket start(Arguments&&... arguments) {
    queue_.emplace_back(std::forward<Arguments>(arguments)...);
    ++started_;
    if (queue_.size() == 1) {
      queue_.front().take_off();
      advance();  // what is done at once is done now
    }
    return started_;
  }

  /// True when `ticket` and all before it are done. Throws CommError for a ticket that is none.
  bool test(Ticket ticket) {
    if (ticket == 0 || ticket > started_)
      throw CommError("ticket " + std::to_string(ticket) +
                      ": must name a started collective, 1 to " + std::to_string(started_));
    while (done_ < ticket && advance()) {
    }
    return done_ >= ticket;
  }

  void progress() {
    while (advance()) {
    }
  }

  bool empty() const { return queue_.empty(); }
  /// The ticket of the last one that was started, 0 before the first.
  Ticket last() const { return started_; }

 private:
  // One look; true when something moved.
  bool advance() {
    if (queue_.empty()) return false;
    bool moved = queue_.front().advance();
    while (queue_.front().done()) {
      moved = true;
      ++done_;
      queue_.pop_front();
      if (queue_.empty()) break;
      queue_.front().take_off();
    }
    return moved;
  }

  std::deque<Flight> queue_;
  Ticket started_ = 0, done_ = 0;
};

}  // namespace shardmark
