// SPDX-License-Identifier: Apache-2.0
// The MPI back-end: a queue of collectives, of which only the oldest has open MPI calls.
#pragma once

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>
#include <comm/flight_queue.hpp>
#include <comm/mpi/mpi_flight.hpp>

namespace shardmark {

/// A Communicator over non-blocking MPI collectives.
class MpiCommunicator : public Communicator {
 public:
  /// Collective over `comm`, which is duplicated and stays the caller's. `options` must be the same
  /// on all ranks, except for the waiting. Throws CommError.
  MpiCommunicator(MPI_Comm comm, const CommOptions& options);
  /// Collective over the group; nothing may be in flight. After an error it frees nothing.
  ~MpiCommunicator() override;

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size; }
  Backend backend() const override { return Backend::mpi; }
  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override { return queue_.test(ticket); }
  void wait(Ticket ticket) override;
  void progress() override { queue_.progress(); }
  const MovedVolume& moved() const override { return moved_; }
  /// Collective. First waits for everything in flight on this lane. Throws CommError.
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  struct Adopt {};
  MpiCommunicator(Adopt, OwnedComm comm, const CommOptions& options);

  OwnedComm comm_;
  MpiGroup group_;
  CommOptions options_;
  MovedVolume moved_;
  FlightQueue<MpiFlight> queue_;
};

}  // namespace shardmark
