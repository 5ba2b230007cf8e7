// SPDX-License-Identifier: Apache-2.0
// The back-end for one rank: every collective is a local copy, or nothing if it is in place.
#pragma once

#include <comm/communicator.hpp>

namespace shardmark {

/// A Communicator of one rank. Buffers must be host memory.
class SelfCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Backend backend() const override { return Backend::self; }
  /// The collective is done when this function returns.
  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void progress() override {}
  const MovedVolume& moved() const override { return moved_; }
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  Ticket last_ = 0;
  MovedVolume moved_;
};

}  // namespace shardmark
