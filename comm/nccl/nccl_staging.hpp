// SPDX-License-Identifier: Apache-2.0
// Lets a back-end of the host (mpi, shm, self) transfer device buffers through pinned host memory:
// data is copied to the host before a collective starts and back when it is done, and the host
// waits for both copies. If MPI accepts device addresses and carries out the whole collective, MPI
// gets the device addresses and the host waits for the compute stream only. So one binary can
// compare back-ends, with any MPI library.
#pragma once

#include <cstddef>
#include <deque>
#include <vector>

#include <comm/comm_options.hpp>
#include <comm/decorators/forwarding.hpp>
#include <core/gpu_runtime.hpp>

namespace shardmark {

/// The decorator that stages through pinned memory.
class StagingCommunicator : public ForwardingCommunicator {
 public:
  /// Uses the compute stream of `options`, after whose work a collective starts, and the options of
  /// the back-end `mpi`, which decide whether device addresses are passed on.
  StagingCommunicator(std::unique_ptr<Communicator> inner, const CommOptions& options);
  ~StagingCommunicator() override;
  StagingCommunicator(const StagingCommunicator&) = delete;
  StagingCommunicator& operator=(const StagingCommunicator&) = delete;

  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void progress() override;
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  struct Pinned {
    void* data;
    std::size_t bytes;
  };
  struct Open {
    Ticket ticket;
    Collective c;                // with the device addresses
    Pinned send, recv, scratch;  // null if not staged
  };
  Pinned take(std::int64_t bytes);
  void deliver_done();
  void deliver(const Open& open);

  bool direct(const Collective& c) const;

  CommOptions options_;
  device::Stream stream_;
  std::deque<Open> open_;
  std::vector<Pinned> all_, spare_;
};

}  // namespace shardmark
