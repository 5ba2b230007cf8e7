// SPDX-License-Identifier: Apache-2.0
// Lets a back-end of the host (mpi, shm, self) carry buffers of the device: through pinned memory,
// copied down before a collective starts and up when it is done. The host waits for both copies.
// Where MPI takes addresses of the device and does all of a collective, it gets those: the host
// then waits for the compute stream alone. So one binary compares back-ends, with any MPI.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include <cuda_runtime_api.h>

#include <comm/comm_options.hpp>
#include <comm/decorators/forwarding.hpp>

namespace shardmark {

class StagingCommunicator : public ForwardingCommunicator {
 public:
  /// Of `options`: `compute_stream`, whose work a collective comes after; `device_buffers`, and
  /// what else the back-end mpi decides by.
  StagingCommunicator(std::unique_ptr<Communicator> inner, const MpiOptions& options);
  ~StagingCommunicator() override;
  StagingCommunicator(const StagingCommunicator&) = delete;
  StagingCommunicator& operator=(const StagingCommunicator&) = delete;

  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void progress() override;
  /// What is exchanged is in host memory already.
  Ticket exchange(const void* own, void* all, std::int64_t bytes) override;
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  struct Pinned {
    void* data;
    std::size_t bytes;
  };
  struct Open {
    Ticket ticket;
    Collective c;                // on the device
    Pinned send, recv, scratch;  // null: not staged
  };
  Pinned take(std::int64_t bytes);
  void deliver_done();
  void deliver(const Open& open);

  bool direct(const Collective& c) const;

  MpiOptions options_;
  cudaStream_t stream_;
  std::deque<Open> open_;
  std::vector<Pinned> all_, spare_;
};

}  // namespace shardmark
