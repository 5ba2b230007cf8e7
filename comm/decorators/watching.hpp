// SPDX-License-Identifier: Apache-2.0
// Puts a communicator under the watchdog: waiting ends in a CommError when a collective does not
// finish in time. Groups made by split are watched too.
#pragma once

#include <deque>

#include <comm/decorators/forwarding.hpp>
#include <comm/decorators/watchdog.hpp>

namespace shardmark {

/// The decorator that reports its progress to the Watchdog.
class WatchingCommunicator : public ForwardingCommunicator {
 public:
  /// `inner` must consist of all ranks of `watchdog` in the same order. `watchdog` must outlive
  /// this communicator and its splits. Not collective, but all ranks must create the same
  /// communicators in the same order, because lanes are numbered.
  WatchingCommunicator(std::unique_ptr<Communicator> inner, Watchdog& watchdog);
  ~WatchingCommunicator() override;
  WatchingCommunicator(const WatchingCommunicator&) = delete;
  WatchingCommunicator& operator=(const WatchingCommunicator&) = delete;

  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void progress() override;
  bool holds_compute(Ticket ticket) override;
  Ticket exchange(const void* own, void* all, std::int64_t bytes) override;
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  WatchingCommunicator(std::unique_ptr<Communicator> inner, Watchdog& watchdog, std::uint64_t id,
                       std::vector<int> ranks);
  bool retire_done();
  void check_timeout();
  bool finished_after_all();

  Watchdog& watchdog_;
  WatchedLane lane_;
  std::deque<WatchedLane::Call> open_;
  std::uint64_t splits_ = 0;
};

}  // namespace shardmark
