// SPDX-License-Identifier: Apache-2.0
// The base class of the decorators: it owns the inner communicator and forwards every call to it; a
// decorator overrides what it changes. `holds_compute` is not forwarded: by default it waits for
// the end of the collective, so that the decorator's work on the result is done. In a run the order
// is, from the inside: back-end, congesting, watching, delaying, counting, faulty, proving.
#pragma once

#include <utility>

#include <comm/communicator.hpp>

namespace shardmark {

/// Forwards every call to the communicator that it owns. Decorators derive from it and override
/// what they change.
class ForwardingCommunicator : public Communicator {
 public:
  explicit ForwardingCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}
  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  Backend backend() const override { return inner_->backend(); }
  std::string about() const override { return inner_->about(); }
  Ticket start(const Collective& c) override { return inner_->start(c); }
  bool test(Ticket ticket) override { return inner_->test(ticket); }
  void wait(Ticket ticket) override { inner_->wait(ticket); }
  void progress() override { inner_->progress(); }
  const MovedVolume& moved() const override { return inner_->moved(); }
  bool on_stream() const override { return inner_->on_stream(); }
  Ticket exchange(const void* own, void* all, std::int64_t bytes) override {
    return inner_->exchange(own, all, bytes);
  }

 protected:
  Communicator& inner() { return *inner_; }
  const Communicator& inner() const { return *inner_; }

 private:
  std::unique_ptr<Communicator> inner_;
};

/// The base of decorators that work on the result of a collective before the program may use it.
class DeliveringCommunicator : public ForwardingCommunicator {
 public:
  using ForwardingCommunicator::ForwardingCommunicator;
  bool test(Ticket ticket) override {
    if (!inner().test(inner_ticket(ticket))) return false;
    deliver(ticket);
    return true;
  }
  void wait(Ticket ticket) override {
    inner().wait(inner_ticket(ticket));
    deliver(ticket);
  }

 protected:
  /// Called when all collectives up to `ticket` are done, possibly several times.
  virtual void deliver(Ticket ticket) = 0;
  /// The ticket of the inner communicator, if this one counts its own.
  virtual Ticket inner_ticket(Ticket ticket) const { return ticket; }
};

}  // namespace shardmark
