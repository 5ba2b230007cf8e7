// SPDX-License-Identifier: Apache-2.0
// The back-end for ranks of one node: collectives through memory that they share
// (comm/shm/shm_flight.hpp). MPI starts it up and splits its groups; a collective makes no MPI call
// and needs no scratch. Buffers must be in memory that the processor can address.
#pragma once

#include <memory>
#include <string>

#include <comm/communicator.hpp>
#include <comm/flight_queue.hpp>
#include <comm/idle.hpp>
#include <comm/mpi/mpi_types.hpp>
#include <comm/shm/shm_flight.hpp>

namespace shardmark {

struct ShmOptions {
  std::int64_t buffer_bytes = default_shm_buffer_bytes;  // the same on all ranks
  std::int64_t direct_bytes = default_shm_direct_bytes;  // the same on all ranks
  Idle idle;
};

class ShmCommunicator : public Communicator {
 public:
  /// Collective over `comm`, which is duplicated and stays the caller's. Null on all ranks, with
  /// the reason in `why_not`, where they cannot share memory. Throws CommError.
  static std::unique_ptr<ShmCommunicator> make(MPI_Comm comm, const ShmOptions& options,
                                               std::string& why_not);
  /// Collective over the group, and nothing may be in flight.
  ~ShmCommunicator() override;

  int rank() const override { return window_->rank(); }
  int size() const override { return window_->size(); }
  std::string_view backend() const override { return "shm"; }
  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override { return queue_.test(ticket); }
  void wait(Ticket ticket) override;
  void progress() override { queue_.progress(); }
  /// Waits for what is in flight here first.
  std::unique_ptr<Communicator> split(int color, int key) override;

  /// The memory that the group shares, all ranks together, which each process maps.
  std::int64_t window_bytes() const { return window_->bytes(); }

 private:
  static std::unique_ptr<ShmCommunicator> adopt(OwnedComm comm, const ShmOptions& options,
                                                std::string& why_not);
  ShmCommunicator(OwnedComm comm, std::unique_ptr<ShmWindow> window, const ShmOptions& options);

  OwnedComm comm_;
  std::unique_ptr<ShmWindow> window_;
  ShmOptions options_;
  PeerMemory peers_;
  FlightQueue<ShmFlight> queue_;
};

}  // namespace shardmark
