// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/segment_runs.hpp>

namespace shardmark {

void MicroBatches::push_back(int segment) {
  resize(size_ + 1, segment);
}

void MicroBatches::resize(std::int64_t count, int segment) {
  if (count <= size_) return;
  if (!runs_.empty() && runs_.back().segments == std::vector<int>{segment})
    runs_.back().times += count - size_;
  else
    runs_.push_back({{segment}, count - size_});
  size_ = count;
}

void MicroBatches::repeat(std::int64_t period, std::int64_t times) {
  if (times <= 0) return;
  std::vector<int> pattern;
  for (std::int64_t g = size_ - period; g < size_; ++g) pattern.push_back((*this)[g]);
  if (period == 1) return resize(size_ + times, pattern[0]);
  const std::int64_t all = size_ + period * times;
  for (std::int64_t left = period; left > 0;) {  // these become part of the new run
    SegmentRun& last = runs_.back();
    const auto length = static_cast<std::int64_t>(last.segments.size());
    const std::int64_t taken = std::min(last.times, (left + length - 1) / length);
    last.times -= taken;
    left -= taken * length;
    if (last.times == 0) runs_.pop_back();
  }
  runs_.push_back({std::move(pattern), times + 1});
  size_ = all;
}

int MicroBatches::operator[](std::int64_t micro_batch) const {
  for (const SegmentRun& run : runs_) {
    const auto length = static_cast<std::int64_t>(run.segments.size());
    if (micro_batch < length * run.times)
      return run.segments[static_cast<std::size_t>(micro_batch % length)];
    micro_batch -= length * run.times;
  }
  return -1;
}

}  // namespace shardmark
