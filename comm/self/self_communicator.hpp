// SPDX-License-Identifier: Apache-2.0
// The back-end for one rank: every collective is a local copy, or nothing if it is in place.
#pragma once

#include <comm/collective.hpp>

namespace shardmark {

/// A Communicator of one rank. Buffers must be host memory.
class SelfCommunicator : public Communicator {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  Backend backend() const override { return Backend::self; }
  /// The collective is done when this function returns.
  Ticket start(const Collective& c) override {
    validate(c, 0, 1);
    // Over one rank, every reduction returns the value itself.
    if (c.op != Op::barrier) copy_whole(c, 0, 1, moved_[c.op]);
    return ++last_;
  }
  bool test(Ticket ticket) override {
    require_started(ticket, last_);
    return true;
  }
  void wait(Ticket ticket) override { test(ticket); }
  void progress() override {}
  const MovedVolume& moved() const override { return moved_; }
  std::unique_ptr<Communicator> split(int, int) override {
    return std::make_unique<SelfCommunicator>();
  }

 private:
  Ticket last_ = 0;
  MovedVolume moved_;
};

}  // namespace shardmark
