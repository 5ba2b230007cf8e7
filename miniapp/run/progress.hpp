// SPDX-License-Identifier: Apache-2.0
// What a person sees while a run goes on: one line that is rewritten on a terminal, a plain line
// now and then in a batch log. Rank 0 only.
#pragma once

#include <cstdint>

namespace shardmark {

/// Whether what this process prints reaches a terminal, through mpiexec too: its own standard
/// output is one, or that of the launcher above it.
bool output_reaches_terminal();

/// Prints progress after each step, or nothing if it is off.
class Progress {
 public:
  Progress(bool on, std::int64_t first_step, std::int64_t steps, std::int64_t warmup,
           std::int64_t tokens_per_step);
  /// After step `step` (from 0) took `seconds`; `loss` is this rank's.
  void step(std::int64_t step, double loss, double seconds);
  /// Clears the rewritten line.
  void done();

 private:
  bool due(std::int64_t step) const;
  bool on_, terminal_;
  std::int64_t first_step_, steps_, warmup_, tokens_per_step_;
  std::int64_t start_ns_, last_print_ns_ = 0;
  double recent_s_ = 0;  // smoothed seconds a step
};

}  // namespace shardmark
