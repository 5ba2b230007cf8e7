// SPDX-License-Identifier: Apache-2.0
// The back-end for ranks of one node: collectives through memory that the ranks share
// (comm/shm/shm_flight.hpp). MPI is used for start-up and for splits; a collective makes no MPI
// call and needs no scratch. Buffers must be in memory that the processor can address.
#pragma once

#include <memory>
#include <string>

#include <comm/mpi/queued_communicator.hpp>
#include <comm/shm/shm_flight.hpp>

namespace shardmark {

/// A Communicator over shared memory.
class ShmCommunicator : public QueuedCommunicator<ShmFlight> {
 public:
  /// Collective over `comm`, which is duplicated and stays the caller's. Null on all ranks, with
  /// the reason in `why_not`, if the ranks cannot share memory. Throws CommError.
  static std::unique_ptr<ShmCommunicator> make(MPI_Comm comm, const CommOptions& options,
                                               std::string& why_not);

  int rank() const override { return window_->rank(); }
  int size() const override { return window_->size(); }
  Backend backend() const override { return Backend::shm; }
  Ticket start(const Collective& c) override;

  /// The bytes of shared memory of all ranks of the group together, as each process maps them.
  std::int64_t window_bytes() const { return window_->bytes(); }

 private:
  static std::unique_ptr<ShmCommunicator> adopt(OwnedComm comm, const CommOptions& options,
                                                std::string& why_not);
  ShmCommunicator(OwnedComm comm, std::unique_ptr<ShmWindow> window, const CommOptions& options);
  std::unique_ptr<Communicator> group_of(OwnedComm comm) const override;

  std::unique_ptr<ShmWindow> window_;
  PeerMemory peers_;
};

}  // namespace shardmark
