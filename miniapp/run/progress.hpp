// SPDX-License-Identifier: Apache-2.0
// The progress that rank 0 prints during a run: one line that is rewritten on a terminal, or some
// plain lines in a batch log.
#pragma once

#include <cstdint>

namespace shardmark {

/// Whether standard output of this process is a terminal, or that of the launcher (such as mpiexec)
/// which started it.
bool output_reaches_terminal();

/// Prints progress after each step, or nothing if it is off.
class Progress {
 public:
  Progress(bool on, std::int64_t first_step, std::int64_t steps, std::int64_t warmup,
           std::int64_t tokens_per_step);
  /// To be called after step `step` (from 0), which took `seconds`; `loss` is this rank's.
  void step(std::int64_t step, double loss, double seconds);
  /// Clears the rewritten line.
  void done() const;

 private:
  bool prints_after(std::int64_t step) const;
  bool on_, terminal_;
  std::int64_t first_step_, steps_, warmup_, tokens_per_step_;
  std::int64_t start_ns_, last_print_ns_ = 0;
  double recent_s_ = 0;  // smoothed seconds per step
};

}  // namespace shardmark
