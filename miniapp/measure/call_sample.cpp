// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include <core/random.hpp>
#include <miniapp/measure/call_sample.hpp>

namespace shardmark {

std::int64_t CallSample::steps_of(std::int64_t calls) {
  constexpr std::int64_t most_calls = 65536, least_steps = 16;
  return std::max(least_steps, most_calls / std::max<std::int64_t>(1, calls));
}

// A block of 2^(n + 1) steps has two halves, and each half keeps one of its steps. A hash decides
// which of these two steps the block keeps.
bool CallSample::takes(std::int64_t step) const {
  for (int n = 0; n < halvings_; ++n) {
    const auto pair = static_cast<std::uint64_t>(step) >> (n + 1);
    const auto half = (static_cast<std::uint64_t>(step) >> n) & 1;
    if ((mix(0, static_cast<std::uint64_t>(n), pair) & 1) != half) return false;
  }
  return true;
}

void CallSample::end_step(std::int64_t step, std::vector<CollectiveRecord>& records) {
  if (takes(step)) steps_.push_back({step, records.size()});
  records.resize(steps_.empty() ? 0 : steps_.back().end);
  while (std::ssize(steps_) > most_steps_) halve(records);
}

void CallSample::halve(std::vector<CollectiveRecord>& records) {
  ++halvings_;
  const std::vector<Step> before = std::exchange(steps_, {});
  std::size_t begin = 0, kept = 0;
  for (const Step& s : before) {
    if (takes(s.step)) {
      const auto first = records.begin() + static_cast<std::ptrdiff_t>(begin);
      const auto last = records.begin() + static_cast<std::ptrdiff_t>(s.end);
      std::copy(first, last, records.begin() + static_cast<std::ptrdiff_t>(kept));
      kept += s.end - begin;
      steps_.push_back({s.step, kept});
    }
    begin = s.end;
  }
  records.resize(kept);
}

std::vector<std::size_t> CallSample::steps() const {
  std::vector<std::size_t> steps;
  for (const Step& s : steps_) steps.push_back(static_cast<std::size_t>(s.step));
  return steps;
}

}  // namespace shardmark
