// SPDX-License-Identifier: Apache-2.0
// The MPI back-end: a queue of collectives, of which only the oldest has MPI calls open.
#pragma once

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>
#include <comm/flight_queue.hpp>
#include <comm/mpi/mpi_flight.hpp>

namespace shardmark {

class MpiCommunicator : public Communicator {
 public:
  /// Collective over `comm`, which is duplicated and stays the caller's. `options` must be the same
  /// on all ranks. Throws CommError.
  MpiCommunicator(MPI_Comm comm, const MpiOptions& options);
  /// Collective over the group, and nothing may be in flight.
  ~MpiCommunicator() override;

  int rank() const override { return site_.rank; }
  int size() const override { return site_.size; }
  std::string_view backend() const override { return "mpi"; }
  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override { return queue_.test(ticket); }
  void wait(Ticket ticket) override;
  void progress() override { queue_.progress(); }
  /// Waits for what is in flight here first.
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  struct Adopt {};
  MpiCommunicator(Adopt, OwnedComm comm, const MpiOptions& options);

  OwnedComm comm_;
  MpiSite site_;
  MpiOptions options_;
  FlightQueue<MpiFlight> queue_;
};

}  // namespace shardmark
