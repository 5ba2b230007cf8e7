// SPDX-License-Identifier: Apache-2.0
// The guard: a thread that ends this process when a phase does not end in time. Collectives have
// the watchdog, which asks the other ranks; the guard covers what the watchdog cannot see, because
// it happens inside a library or before and after there is a watchdog: MPI_Init, calls that make
// and free communicators (UnwatchedCall) wherever they come, checkpoints and the report's files,
// MPI_Finalize and MPI_Abort. It uses no MPI, no lock of another thread and no buffered output. It
// also ends the process at a second SIGINT or SIGTERM.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <string>

#include <core/error.hpp>

namespace shardmark {

/// Seconds for start-up, until the deck is read and gives comm.timeout_s.
inline constexpr double start_limit_s = 600;
/// Seconds for closing communicators and for MPI_Finalize with everything that follows.
inline constexpr double end_limit_s = 30;
/// Seconds for MPI_Abort.
inline constexpr double abort_limit_s = 10;
/// Bytes per second of a rank that a file system has at least, for the limit of a checkpoint.
inline constexpr double least_file_bytes_per_s = 1e6;
/// A second SIGINT or SIGTERM within this time after the first is the same one, sent twice.
inline constexpr double same_signal_s = 1;

/// One per process, started before MPI_Init. It is never destroyed, since it guards the end of the
/// process too.
class DeadlineGuard {
 public:
  /// Starts the thread, which receives the signals of stop_signals.hpp and no others. Throws
  /// std::system_error.
  static DeadlineGuard& start();
  DeadlineGuard(const DeadlineGuard&) = delete;
  DeadlineGuard& operator=(const DeadlineGuard&) = delete;

  /// The phase `what` begins, and the one before ends. If it takes longer than `limit_s` seconds,
  /// or SHARDMARK_PHASE_LIMIT_S if that is less, the process names itself on standard error and
  /// ends by _exit with the status of `ends_with`.
  void begin(const char* what, double limit_s);
  /// `limit_s` seconds, or SHARDMARK_PHASE_LIMIT_S if that is less.
  double limited(double limit_s) const { return std::min(limit_s, most_s_); }
  /// The phase ends; nothing but unwatched calls is guarded until the next one.
  void end();
  /// The limit of an unwatched call outside a phase (`start_limit_s` before the first call).
  void set_timeout(double timeout_s);
  /// The status with which the process is about to end; CommError's before the first call.
  void ends_with(ExitStatus status);

 private:
  DeadlineGuard();
  void watch();
  void look(std::int64_t now_ns);
  void begin_locked(const char* what, double limit_s);
  void unwatched_call(const char* what);
  void say(const std::string& why) const;

  std::string self_;  // "rank 1 (host n3, pid 12)"
  std::mutex mutex_;  // guards what follows
  const char* what_ = nullptr;
  double limit_s_ = 0, call_limit_s_ = start_limit_s;
  bool in_call_ = false;  // `what_` is an unwatched call, not a phase
  std::int64_t deadline_ns_ = 0;
  ExitStatus status_ = ExitStatus::comm;
  double most_s_;            // SHARDMARK_PHASE_LIMIT_S
  int counted_signals_ = 0;  // SIGINT and SIGTERM within same_signal_s after the first
  std::int64_t first_signal_ns_ = 0;
};

/// Guards one phase from here to the end of a scope.
class GuardedPhase {
 public:
  GuardedPhase(DeadlineGuard& guard, const char* what, double limit_s) : guard_(guard) {
    guard_.begin(what, limit_s);
  }
  ~GuardedPhase() { guard_.end(); }
  GuardedPhase(const GuardedPhase&) = delete;
  GuardedPhase& operator=(const GuardedPhase&) = delete;

 private:
  DeadlineGuard& guard_;
};

}  // namespace shardmark
