// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <exception>
#include <utility>

#include <fmt/core.h>

#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_types.hpp>
#include <comm/nccl/nccl_check.hpp>
#include <comm/nccl/nccl_handle.hpp>
#include <core/clock.hpp>
#include <core/error.hpp>

namespace shardmark {
namespace {

// What rank 0 sends to all ranks. A failure is sent too, or the others would wait forever.
struct Invitation {
  ncclResult_t status = ncclSuccess;
  ncclUniqueId id{};
};

#if NCCL_VERSION_CODE >= 21400
constexpr const char* start_call = "ncclCommInitRankConfig";
ncclResult_t start(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return ncclCommInitRankConfig(comm, size, id, rank, &config);
}
ncclResult_t finalize(ncclComm_t comm) {
  return ncclCommFinalize(comm);
}
std::string last_error(ncclComm_t comm) {
  const char* text = ncclGetLastError(comm);
  return text == nullptr ? "" : text;
}
#else
// RCCL up to 5.4 has blocking communicators only: a start-up that a lost rank never answers is then
// ended by the deadline of the phase.
constexpr const char* start_call = "ncclCommInitRank";
ncclResult_t start(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRank(comm, size, id, rank);
}
ncclResult_t finalize(ncclComm_t) {
  return ncclSuccess;
}
std::string last_error(ncclComm_t) {
  return {};
}
#endif

}  // namespace

NcclHandle::NcclHandle(MPI_Comm comm, double timeout_s, Idle idle)
    : timeout_s_(timeout_s), idle_(idle) {
  const int rank = comm_rank(comm), size = comm_size(comm);
  Invitation invitation;
  if (rank == 0) invitation.status = ncclGetUniqueId(&invitation.id);
  SHARDMARK_MPI(MPI_Bcast(&invitation, sizeof invitation, MPI_BYTE, 0, comm));
  check_nccl(invitation.status, "ncclGetUniqueId of rank 0");
  check_nccl(start(&comm_, size, invitation.id, rank), start_call);
  wait_until_ready("NCCL start-up");
}

NcclHandle::~NcclHandle() {
  abort();
}

bool NcclHandle::ready(std::string_view what) {
  if (comm_ == nullptr)
    throw CommError(fmt::format("{}: the communicator was aborted after an error", what));
  ncclResult_t state = ncclSuccess;
  SHARDMARK_NCCL(ncclCommGetAsyncError(comm_, &state));
  if (in_progress(state)) return false;
  if (state == ncclSuccess) return true;
  const std::string text = last_error(comm_);
  abort();
  throw CommError(
      fmt::format("{}: NCCL: {}{}{}: run again with NCCL_DEBUG=INFO to see which rank failed first",
                  what, ncclGetErrorString(state), text.empty() ? "" : ": ", text));
}

void NcclHandle::wait_until_ready(std::string_view what) {
  const std::int64_t end_ns = monotonic_ns() + static_cast<std::int64_t>(timeout_s_ * 1e9);
  while (!ready(what)) {
    if (monotonic_ns() > end_ns) {
      abort();
      throw CommError(
          fmt::format("{}: not finished after {:g} s: a rank is missing, or the ranks cannot reach "
                      "each other: run again with NCCL_DEBUG=INFO, and check NCCL_SOCKET_IFNAME",
                      what, timeout_s_));
    }
    idle_.pause();
  }
}

void NcclHandle::close() noexcept try {
  if (comm_ == nullptr) return;
  wait_until_ready("NCCL tear-down");  // for operations that may still be in progress
  check_nccl(finalize(comm_), "ncclCommFinalize");
  wait_until_ready("NCCL tear-down");
  SHARDMARK_NCCL(ncclCommDestroy(std::exchange(comm_, nullptr)));
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  abort();
}

void NcclHandle::abort() noexcept {
  if (comm_ == nullptr) return;
  aborted_ = true;
  const ncclResult_t code = ncclCommAbort(std::exchange(comm_, nullptr));
  if (code != ncclSuccess && !in_progress(code))
    std::fprintf(stderr, "ncclCommAbort: %s\n", ncclGetErrorString(code));
}

}  // namespace shardmark
