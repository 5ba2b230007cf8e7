// SPDX-License-Identifier: Apache-2.0
// The shape of the back-ends of the host: a queue of flights over an MPI communicator. A back-end
// (`mpi`, `shm`, `node`) differs from the others in its flight, which is its way to move bytes, and
// in the back-end that a group of its ranks gets.
#pragma once

#include <memory>
#include <utility>

#include <mpi.h>

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>
#include <comm/flight_queue.hpp>
#include <comm/mpi/mpi_types.hpp>

namespace shardmark {

/// A Communicator whose collectives are flights of a FlightQueue. The last argument of a flight's
/// constructor is the `Moved` that it counts in. Flights outlive the members of the derived class,
/// so the destructor of a flight must not use them.
template<class Flight>
class QueuedCommunicator : public Communicator {
 public:
  QueuedCommunicator(const QueuedCommunicator&) = delete;
  QueuedCommunicator& operator=(const QueuedCommunicator&) = delete;
  /// Collective over the group; nothing may be in flight. After an error, calls may be open and
  /// peers may never take part in a collective free, so it frees nothing.
  ~QueuedCommunicator() override {
    if (!idle()) comm_.release();
  }

  bool test(Ticket ticket) override { return queue_.test(ticket); }
  void wait(Ticket ticket) override {
    while (!queue_.test(ticket)) options_.idle.pause();
  }
  void progress() override { queue_.progress(); }
  const MovedVolume& moved() const override { return moved_; }
  /// Collective. First waits for everything in flight on this lane: ranks are at different places
  /// in their queues, and the split has to come at the same place on all. Throws CommError.
  std::unique_ptr<Communicator> split(int color, int key) override {
    if (!idle()) wait(queue_.last());
    return group_of(OwnedComm::split(comm_.get(), color, key));
  }

 protected:
  QueuedCommunicator(OwnedComm comm, const CommOptions& options)
      : comm_(std::move(comm)), options_(options) {}

  /// Collective over `comm`, the ranks of a split. Throws CommError.
  virtual std::unique_ptr<Communicator> group_of(OwnedComm comm) const = 0;

  /// Queues a flight for `c`, made from `c`, `arguments` and its counter.
  template<class... Arguments>
  Ticket enqueue(const Collective& c, Arguments&&... arguments) {
    return queue_.start(c, std::forward<Arguments>(arguments)..., moved_[c.op]);
  }
  bool idle() const { return queue_.empty(); }
  MPI_Comm mpi_comm() const { return comm_.get(); }
  const CommOptions& options() const { return options_; }
  CommOptions& options() { return options_; }

 private:
  OwnedComm comm_;
  CommOptions options_;
  MovedVolume moved_;
  FlightQueue<Flight> queue_;
};

}  // namespace shardmark
