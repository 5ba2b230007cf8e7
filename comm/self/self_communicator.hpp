// SPDX-License-Identifier: Apache-2.0
// One rank is a legal world: every collective is a copy, or nothing where it is in place.
#pragma once

#include <comm/communicator.hpp>

namespace shardmark {

class SelfCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string_view backend() const override { return "self"; }
  /// Done when it returns.
  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void progress() override {}
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  Ticket last_ = 0;
};

}  // namespace shardmark
