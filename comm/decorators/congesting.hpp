// SPDX-License-Identifier: Apache-2.0
// Lets background traffic progress whenever a collective may: it stands directly around the
// back-end, so that the watchdog's waiting polls it.
#pragma once

#include <comm/decorators/forwarding.hpp>
#include <comm/mpi/background_traffic.hpp>

namespace shardmark {

/// The decorator; `traffic` must outlive it and the lanes that are split off.
class CongestingCommunicator : public ForwardingCommunicator {
 public:
  CongestingCommunicator(std::unique_ptr<Communicator> inner, BackgroundTraffic& traffic)
      : ForwardingCommunicator(std::move(inner)), traffic_(traffic) {}
  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override;
  bool holds_compute(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void progress() override;
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  BackgroundTraffic& traffic_;
};

}  // namespace shardmark
