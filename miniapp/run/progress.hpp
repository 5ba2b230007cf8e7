// SPDX-License-Identifier: Apache-2.0
// How far a run or other long work is, and how long it will still take.
#pragma once

#include <cstdint>
#include <string>

#include <core/clock.hpp>

namespace shardmark {

/// "12 s left": of work that has taken `seconds` for `part` of it, which is above 0 and at most 1.
std::string time_left(double seconds, double part);

/// One line that is rewritten on a terminal. Without a terminal nothing is shown.
class ProgressLine {
 public:
  /// `on`: whether this rank is the one that prints.
  explicit ProgressLine(bool on);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  bool on_terminal() const { return terminal_; }
  void show(const std::string& text);
  void clear();
  /// Since the line was made.
  double seconds() const { return static_cast<double>(monotonic_ns() - start_ns_) * 1e-9; }

 private:
  bool terminal_, shown_ = false;
  std::int64_t start_ns_ = monotonic_ns();
};

/// Progress of bytes on standard error, for commands whose standard output is their result: a plain
/// line every two seconds.
class WorkProgress {
 public:
  explicit WorkProgress(std::string what) : what_(std::move(what)) {}
  void operator()(std::int64_t done, std::int64_t all);

 private:
  std::string what_;
  std::int64_t start_ns_ = monotonic_ns();
  std::int64_t last_ns_ = start_ns_;  // short work prints nothing
};

/// Prints progress after each step, or nothing if it is off.
class Progress {
 public:
  Progress(bool on, std::int64_t first_step, std::int64_t steps, std::int64_t warmup,
           std::int64_t tokens_per_step);
  /// To be called after step `step` (from 0), which took `seconds`; `loss` is this rank's.
  void step(std::int64_t step, double loss, double seconds);
  /// Clears the rewritten line.
  void done() { line_.clear(); }

 private:
  bool prints_after(std::int64_t step) const;
  bool on_;
  ProgressLine line_;
  std::int64_t first_step_, steps_, warmup_, tokens_per_step_;
  std::int64_t last_print_ns_ = 0;
  double recent_s_ = 0;  // smoothed seconds per step
};

}  // namespace shardmark
