// SPDX-License-Identifier: Apache-2.0
// An ncclComm_t with an owner. It does not block: a call may return while NCCL still works on it,
// and the next one may be made only when NCCL says that it is ready. So no rank hangs inside a call
// that a lost peer never answers, and the watchdog has its say.
#pragma once

#include <string>
#include <string_view>

#include <mpi.h>
#include <nccl.h>

#include <comm/idle.hpp>

namespace shardmark {

class NcclHandle {
 public:
  /// Collective over `comm`: rank 0's unique id goes to all over MPI. Throws CommError on an error,
  /// or when the ranks have not come together within `timeout_s`.
  NcclHandle(MPI_Comm comm, double timeout_s, Idle idle);
  /// Aborts unless closed.
  ~NcclHandle();
  NcclHandle(const NcclHandle&) = delete;
  NcclHandle& operator=(const NcclHandle&) = delete;

  /// Local. Whether the last call is behind NCCL, so that another may be made. On an asynchronous
  /// error aborts, and throws CommError that begins with `what`.
  bool ready(std::string_view what);
  ncclComm_t get() const { return comm_; }
  bool aborted() const { return aborted_; }
  /// Collective. Ends it cleanly: nothing may be in flight. Reports what fails, throws nothing.
  void close() noexcept;
  /// Local. Ends what runs on the device, and frees. Later calls throw.
  void abort() noexcept;

 private:
  void settle(std::string_view what);

  ncclComm_t comm_ = nullptr;
  bool aborted_ = false;
  double timeout_s_;
  Idle idle_;
};

}  // namespace shardmark
