// SPDX-License-Identifier: Apache-2.0
// The signals that ask a run to stop: SIGINT, SIGTERM and SIGUSR1. A handler only sets a flag, on
// the thread of DeadlineGuard; the ranks look at the flags between steps.
//
// How the ranks agree on the step after which they stop: a signal may reach any rank at any time,
// but all ranks have to stop after the same step, or the others would wait for a rank that is gone.
//
// In every step, just before the update, the ranks start an all_reduce of one number on the
// driver's own lane, and look at its result when the step is done. It is small enough to cost
// nothing that can be measured: 8 bytes, one round of shared memory or of messages. It also adds no
// wait worth mentioning: a rank needs only that the others have begun the same update, which the
// reduction of the gradients before it has made them do at about the same time, and meanwhile the
// rank computes. A blocking call at the end of the step would wait for the slowest update; an
// exchange that is looked at one step later would run a whole step more. The driver's lane is
// neither counted nor delayed, and has a communicator of its own, so the collectives of the plan
// are not disturbed.
#pragma once

#include <cstdint>

#include <core/enum_array.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Why a run stops before its last step. If the ranks have different causes, the largest counts.
enum class StopCause : std::uint8_t { none, time_limit, sigusr1, sigint, sigterm };

template<>
inline constexpr auto value_names<StopCause> = name_list("", "run.time_limit_s", "SIGUSR1",
                                                         "SIGINT", "SIGTERM");

/// Installs the handlers for this process, and blocks the signals in the calling thread and in all
/// threads that it starts from here on. Call it before any other thread runs. Throws
/// std::system_error.
void catch_stop_signals();

/// Lets the calling thread run the handlers. Only a thread that makes no matrix product may call.
void receive_stop_signals();

/// The signal that asked this process to stop, or StopCause::none. Lock-free; any thread may call.
StopCause signal_received();

/// How often SIGINT and SIGTERM came together. Lock-free; any thread may call.
int urgent_signals_received();

/// One exchange per step about whether to stop.
class StopAgreement {
 public:
  /// `peers` must outlive it.
  explicit StopAgreement(Peers& peers) : peers_(peers) {}
  StopAgreement(const StopAgreement&) = delete;
  StopAgreement& operator=(const StopAgreement&) = delete;

  /// Collective. Tells the other ranks whether this one has a reason to stop; does not wait.
  void start(StopCause own);
  /// Collective, after each start. Returns the most important cause of all ranks, the same on all.
  /// Throws CommError.
  StopCause finish();

 private:
  Peers& peers_;
  double cause_ = 0;  // the buffer of the exchange that is in flight
  Ticket ticket_ = 0;
};

}  // namespace shardmark
