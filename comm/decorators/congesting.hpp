// SPDX-License-Identifier: Apache-2.0
// Lets background traffic progress whenever a collective may: it stands directly around the
// back-end, so that the watchdog's waiting polls it.
#pragma once

#include <thread>

#include <comm/decorators/forwarding.hpp>
#include <comm/mpi/background_traffic.hpp>

namespace shardmark {

/// The decorator; `traffic` must outlive it and the lanes that are split off.
class CongestingCommunicator : public ForwardingCommunicator {
 public:
  CongestingCommunicator(std::unique_ptr<Communicator> inner, BackgroundTraffic& traffic)
      : ForwardingCommunicator(std::move(inner)), traffic_(traffic) {}
  Ticket start(const Collective& c) override {
    const Ticket ticket = inner().start(c);
    traffic_.progress();
    return ticket;
  }
  bool test(Ticket ticket) override {
    traffic_.progress();
    return inner().test(ticket);
  }
  bool holds_compute(Ticket ticket) override {
    traffic_.progress();
    return inner().holds_compute(ticket);
  }
  void wait(Ticket ticket) override {
    while (!test(ticket)) std::this_thread::yield();
  }
  void progress() override {
    traffic_.progress();
    inner().progress();
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<CongestingCommunicator>(inner().split(color, key), traffic_);
  }

 private:
  BackgroundTraffic& traffic_;
};

}  // namespace shardmark
