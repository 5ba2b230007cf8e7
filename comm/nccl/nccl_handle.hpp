// SPDX-License-Identifier: Apache-2.0
// Owns an ncclComm_t that does not block: a call may return while NCCL still processes it, and the
// next call may be made only when NCCL reports that it is ready. So no rank hangs inside a call
// that a lost peer never answers, and the watchdog can act.
#pragma once

#include <string_view>

#include <mpi.h>

#include <comm/idle.hpp>
#include <comm/nccl/nccl_library.hpp>

namespace shardmark {

/// One NCCL communicator.
class NcclHandle {
 public:
  /// Collective over `comm`, which distributes rank 0's unique id. Throws CommError on an error, or
  /// when not all ranks have come within `timeout_s` seconds.
  NcclHandle(MPI_Comm comm, double timeout_s, Idle idle);
  /// Aborts unless `close` was called. Not collective.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  /// Whether NCCL has finished processing the last call, so that another call may be made. On an
  /// asynchronous error it aborts and throws a CommError whose text begins with `what`. Not
  /// collective.
  bool ready(std::string_view what);
  ncclComm_t get() const { return comm_; }
  bool aborted() const { return aborted_; }
  /// Collective; nothing may be in flight. Ends the communicator in an orderly way. Errors are
  /// printed to stderr.
  void close() noexcept;
  /// Not collective. Ends everything that runs on the device and frees the communicator; later
  /// calls throw.
  void abort() noexcept;

 private:
  void wait_until_ready(std::string_view what);

  ncclComm_t comm_ = nullptr;
  bool aborted_ = false;
  double timeout_s_;
  Idle idle_;
};

}  // namespace shardmark
