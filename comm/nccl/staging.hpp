// SPDX-License-Identifier: Apache-2.0
// Lets a back-end of the host (mpi, shm, self) carry buffers of the device: through pinned memory,
// copied down before a collective starts and up when it is done. The host waits for both copies. So
// one binary compares back-ends, with any MPI; speed is NCCL's.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include <cuda_runtime_api.h>

#include <comm/forwarding.hpp>

namespace shardmark {

class StagingCommunicator : public ForwardingCommunicator {
 public:
  /// `compute_stream`: whose work a collective comes after.
  StagingCommunicator(std::unique_ptr<Communicator> inner, void* compute_stream);
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
    Collective c;  // on the device
    Pinned send, recv, scratch;
  };
  Pinned take(std::int64_t bytes);
  void deliver_done();
  void deliver(const Open& open);

  cudaStream_t stream_;
  std::deque<Open> open_;
  std::vector<Pinned> all_, spare_;
};

}  // namespace shardmark
