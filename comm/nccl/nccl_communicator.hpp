// SPDX-License-Identifier: Apache-2.0
// The NCCL back-end. A lane is a stream of the GPU. `start` records an event on the compute stream,
// and the lane waits for that event; `holds_compute` makes the compute stream wait for the lane;
// the host blocks in `wait` only. While NCCL still processes a call, later calls are queued here.
#pragma once

#include <deque>
#include <vector>

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>
#include <comm/mpi/mpi_types.hpp>
#include <comm/nccl/nccl_calls.hpp>
#include <comm/nccl/nccl_handle.hpp>
#include <comm/nccl/nccl_stream.hpp>

namespace shardmark {

/// A Communicator over NCCL.
class NcclCommunicator : public Communicator {
 public:
  /// Collective over `comm`, which the communicator then owns. Throws CommError.
  NcclCommunicator(OwnedComm comm, const CommOptions& options);
  /// Collective over the group; nothing may be in flight. With collectives in flight, or while an
  /// exception propagates, NCCL is aborted instead, because peers may never come.
  ~NcclCommunicator() override;

  int rank() const override { return lane_.rank; }
  int size() const override { return lane_.size; }
  Backend backend() const override { return Backend::nccl; }
  /// Buffers must be accessible by the device; scratch is not used.
  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void progress() override;
  const MovedVolume& moved() const override { return moved_; }
  bool on_stream() const override { return true; }
  /// False while NCCL has not yet put the collective on its stream.
  bool holds_compute(Ticket ticket) override;
  /// Uses MPI, because the data are in host memory.
  Ticket exchange(const void* own, void* all, std::int64_t bytes) override;
  /// Collective. The group has its own NCCL communicator and stream. First waits for everything in
  /// flight on this lane. Throws CommError.
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  struct Flight {
    Collective c;
    DeviceEvent ready, done;  // ready: recorded on the compute stream at start; done: on this lane
    bool called = false;
  };
  class DeviceWord {
   public:
    DeviceWord();
    ~DeviceWord();
    DeviceWord(const DeviceWord&) = delete;
    DeviceWord& operator=(const DeviceWord&) = delete;
    void* get() const { return data_; }

   private:
    void* data_ = nullptr;
  };
  void issue();
  void retire();
  DeviceEvent take_event();
  std::string oldest() const;

  OwnedComm comm_;
  CommOptions options_;
  int exceptions_;  // std::uncaught_exceptions() at construction
  DeviceStream stream_;
  DeviceWord word_;
  NcclHandle handle_;
  NcclLane lane_;
  MovedVolume moved_;
  std::deque<Flight> flights_;
  std::size_t issued_ = 0;  // how many of flights_ are on the stream
  Ticket started_ = 0, done_ = 0;
  std::vector<DeviceEvent> spare_;
};

}  // namespace shardmark
