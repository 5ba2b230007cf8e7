// SPDX-License-Identifier: Apache-2.0
// The MPI back-end: a queue of collectives, of which only the oldest has open MPI calls.
#pragma once

#include <comm/mpi/mpi_flight.hpp>
#include <comm/mpi/queued_communicator.hpp>

namespace shardmark {

/// A Communicator over non-blocking MPI collectives.
class MpiCommunicator : public QueuedCommunicator<MpiFlight> {
 public:
  /// Collective over `comm`, which is duplicated and stays the caller's. `options` must be the same
  /// on all ranks, except for the waiting. Throws CommError.
  MpiCommunicator(MPI_Comm comm, const CommOptions& options)
      : MpiCommunicator(OwnedComm::duplicate(comm), options) {}
  /// Takes over `comm` instead of duplicating it. Not collective. Throws CommError.
  MpiCommunicator(OwnedComm comm, const CommOptions& options)
      : QueuedCommunicator(std::move(comm), options),
        group_{mpi_comm(), comm_rank(mpi_comm()), comm_size(mpi_comm())} {}

  int rank() const override { return group_.rank; }
  int size() const override { return group_.size; }
  Backend backend() const override { return Backend::mpi; }
  Ticket start(const Collective& c) override {
    validate(c, group_.rank, group_.size);
    return enqueue(c, route_of(c, group_.size, options()), group_);
  }

 private:
  std::unique_ptr<Communicator> group_of(OwnedComm comm) const override {
    return std::make_unique<MpiCommunicator>(std::move(comm), options());
  }

  MpiGroup group_;
};

}  // namespace shardmark
