// SPDX-License-Identifier: Apache-2.0
// The back-end for ranks of one node: collectives through memory that the ranks share
// (comm/shm/shm_flight.hpp). MPI is used for start-up and for splits; a collective makes no MPI
// call and needs no scratch. Buffers must be in memory that the processor can address.
#pragma once

#include <memory>
#include <string>

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>
#include <comm/flight_queue.hpp>
#include <comm/mpi/mpi_types.hpp>
#include <comm/shm/shm_flight.hpp>

namespace shardmark {

/// A Communicator over shared memory.
class ShmCommunicator : public Communicator {
 public:
  /// Collective over `comm`, which is duplicated and stays the caller's. Null on all ranks, with
  /// the reason in `why_not`, if the ranks cannot share memory. Throws CommError.
  static std::unique_ptr<ShmCommunicator> make(MPI_Comm comm, const CommOptions& options,
                                               std::string& why_not);
  /// Collective over the group; nothing may be in flight. After an error it frees nothing.
  ~ShmCommunicator() override;

  int rank() const override { return window_->rank(); }
  int size() const override { return window_->size(); }
  Backend backend() const override { return Backend::shm; }
  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override { return queue_.test(ticket); }
  void wait(Ticket ticket) override;
  void progress() override { queue_.progress(); }
  const MovedVolume& moved() const override { return moved_; }
  /// Collective. First waits for everything in flight on this lane. Throws CommError.
  std::unique_ptr<Communicator> split(int color, int key) override;

  /// The bytes of shared memory of all ranks of the group together, as each process maps them.
  std::int64_t window_bytes() const { return window_->bytes(); }

 private:
  static std::unique_ptr<ShmCommunicator> adopt(OwnedComm comm, const CommOptions& options,
                                                std::string& why_not);
  ShmCommunicator(OwnedComm comm, std::unique_ptr<ShmWindow> window, const CommOptions& options);

  OwnedComm comm_;
  std::unique_ptr<ShmWindow> window_;
  CommOptions options_;
  PeerMemory peers_;
  MovedVolume moved_;
  FlightQueue<ShmFlight> queue_;
};

}  // namespace shardmark
