// SPDX-License-Identifier: Apache-2.0
// The timed steps of which every collective is recorded. The memory of a run must not grow with its
// steps: when there are many records, those of half of the steps are dropped, and from then on
// every second step is recorded, later every fourth, and so on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <comm/decorators/counting.hpp>

namespace shardmark {

/// The sample of one rank. Which steps are in it depends on the number of steps alone, so that all
/// ranks have the same ones. Of each 2^n steps that follow each other one is in it, and which one
/// differs, so that what happens every few steps is in the sample as often as in the run.
class CallSample {
 public:
  static constexpr std::int64_t all_steps = std::numeric_limits<std::int64_t>::max();
  /// Returns how many steps to keep so that their records take a few MiB; at least 16. `calls` is
  /// the number of collectives per step.
  static std::int64_t steps_of(std::int64_t calls);

  /// Keeps at most `most_steps` steps. Of a longer run it keeps about half as many or more.
  explicit CallSample(std::int64_t most_steps = all_steps) : most_steps_(most_steps) {}

  /// Whether step `step`, counted from 0, is to be recorded.
  bool takes(std::int64_t step) const;
  /// Called after each step in their order. `records` begins with those of the earlier steps of the
  /// sample; what does not belong to the sample is removed.
  void end_step(std::int64_t step, std::vector<CollectiveRecord>& records);
  /// The steps of the sample in their order.
  std::vector<std::size_t> steps() const;

 private:
  struct Step {
    std::int64_t step;
    std::size_t end;  // of its records
  };
  void halve(std::vector<CollectiveRecord>& records);

  std::int64_t most_steps_;
  int halvings_ = 0;
  std::vector<Step> steps_;
};

}  // namespace shardmark
