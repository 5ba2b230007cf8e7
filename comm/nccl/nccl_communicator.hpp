// SPDX-License-Identifier: Apache-2.0
// The NCCL back-end. A lane is a stream of the device. `start` marks by an event where the compute
// stream stands, and the lane waits for that; `holds_compute` makes the compute stream wait for the
// lane; the host waits in `wait` alone. While NCCL still works on a call, later ones queue here.
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

class NcclCommunicator : public Communicator {
 public:
  /// Collective over `comm`, which it keeps. Throws CommError.
  NcclCommunicator(OwnedComm comm, const MpiOptions& options);
  /// Collective over the group, and nothing may be in flight; else, or while an exception passes,
  /// it is aborted: peers may never come.
  ~NcclCommunicator() override;

  int rank() const override { return site_.rank; }
  int size() const override { return site_.size; }
  std::string_view backend() const override { return "nccl"; }
  /// Buffers are memory that the device can reach; scratch is not used.
  Ticket start(const Collective& c) override;
  bool test(Ticket ticket) override;
  void wait(Ticket ticket) override;
  void progress() override;
  bool on_stream() const override { return true; }
  /// False while NCCL has not yet put the collective on its stream.
  bool holds_compute(Ticket ticket) override;
  /// Over MPI: what is told is in host memory.
  Ticket exchange(const void* own, void* all, std::int64_t bytes) override;
  /// A communicator and a stream of its own. Waits for what is in flight here first.
  std::unique_ptr<Communicator> split(int color, int key) override;

 private:
  struct Flight {
    Collective c;
    CudaEvent ready, done;  // of the compute stream when it was started; of this lane
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
  void require_started(Ticket ticket) const;
  void issue();
  void retire();
  CudaEvent take_event();
  std::string oldest() const;

  OwnedComm comm_;
  MpiOptions options_;
  int exceptions_;  // on their way when it was made
  CudaStream stream_;
  DeviceWord word_;
  NcclHandle handle_;
  NcclSite site_;
  std::deque<Flight> flights_;
  std::size_t issued_ = 0;  // of them, on the stream
  Ticket started_ = 0, done_ = 0;
  std::vector<CudaEvent> spare_;
};

}  // namespace shardmark
