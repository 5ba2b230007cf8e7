// SPDX-License-Identifier: Apache-2.0
#include <thread>

#include <comm/decorators/congesting.hpp>

namespace shardmark {

Ticket CongestingCommunicator::start(const Collective& c) {
  const Ticket ticket = inner().start(c);
  traffic_.progress();
  return ticket;
}

bool CongestingCommunicator::test(Ticket ticket) {
  traffic_.progress();
  return inner().test(ticket);
}

bool CongestingCommunicator::holds_compute(Ticket ticket) {
  traffic_.progress();
  return inner().holds_compute(ticket);
}

void CongestingCommunicator::wait(Ticket ticket) {
  while (!test(ticket)) std::this_thread::yield();
}

void CongestingCommunicator::progress() {
  traffic_.progress();
  inner().progress();
}

std::unique_ptr<Communicator> CongestingCommunicator::split(int color, int key) {
  return std::make_unique<CongestingCommunicator>(inner().split(color, key), traffic_);
}

}  // namespace shardmark
