// SPDX-License-Identifier: Apache-2.0
// Puts a communicator under the watchdog: waiting on it ends in a CommError when a collective is
// not finished in time. Its groups are watched too.
#pragma once

#include <deque>

#include <comm/decorators/forwarding.hpp>
#include <comm/decorators/watchdog.hpp>

namespace shardmark {

class WatchingCommunicator : public ForwardingCommunicator {
 public:
  /// Over all ranks of the watch, in its order. `watch` must outlive it and its splits.
  /// Collective, since the lanes are numbered: all ranks make the same ones in the same order.
  WatchingCommunicator(std::unique_ptr<Communicator> inner, Watch& watch);
  ~WatchingCommunicator() override;
  WatchingCommunicator(const WatchingCommunicator&) = delete;
  WatchingCommunicator& operator=(const WatchingCommunicator&) = delete;

  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void progress() override;
  bool holds_compute(Ticket ticket) override;
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  WatchingCommunicator(std::unique_ptr<Communicator> inner, Watch& watch, std::uint64_t id,
                       std::vector<int> ranks);
  bool settle();
  void check();
  bool inquire();

  Watch& watch_;
  WatchedLane lane_;
  std::deque<WatchedLane::Call> open_;
  std::uint64_t splits_ = 0;
};

}  // namespace shardmark
