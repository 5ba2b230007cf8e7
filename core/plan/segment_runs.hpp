// SPDX-License-Identifier: Apache-2.0
// In which order segments run, written down so that what repeats is stored once: the micro-batches
// of a step may be thousands of millions, and a plan stays as small as with three of them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace shardmark {

/// Segments that run one after another, all of them `times` over.
struct SegmentRun {
  std::vector<int> segments;
  std::int64_t times = 1;
};

/// Which segment runs each micro-batch of a step.
class MicroBatches {
 public:
  MicroBatches() = default;
  MicroBatches(std::initializer_list<int> segments) {
    for (int s : segments) push_back(s);
  }

  void push_back(int segment);
  /// Appends `segment` until there are `count` micro-batches.
  void resize(std::int64_t count, int segment);
  /// Runs the last `period` micro-batches `times` more often.
  void repeat(std::int64_t period, std::int64_t times);

  std::int64_t size() const { return size_; }
  /// The segment of a micro-batch from 0 to size() - 1.
  int operator[](std::int64_t micro_batch) const;
  /// In order; neighbours differ.
  const std::vector<SegmentRun>& runs() const { return runs_; }

 private:
  std::vector<SegmentRun> runs_;
  std::int64_t size_ = 0;
};

}  // namespace shardmark
