// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <miniapp/tools/calibrate/skew_samples.hpp>

namespace shardmark {

void SkewSamples::add(std::span<const double> seconds, int ranks) {
  if (ranks <= 1) return;
  ranks_ = ranks;
  const auto n = static_cast<std::size_t>(ranks), kernels = seconds.size() / n;
  // Until where each rank has come after so many kernels.
  std::vector<std::vector<double>> ends_s(n, std::vector<double>{0});
  for (std::size_t r = 0; r < n; ++r)
    for (const double s : seconds.subspan(r * kernels, kernels))
      ends_s[r].push_back(ends_s[r].back() + s);
  for (std::size_t run = 1; run <= kernels; run *= 2)
    for (std::size_t first = 0; first + run <= kernels; first += run) {
      double sum = 0, last = 0;
      for (const auto& end_s : ends_s) {
        const double took = end_s[first + run] - end_s[first];
        sum += took;
        last = std::max(last, took);
      }
      const double mean = sum / ranks;
      if (mean <= 0) continue;
      Samples& samples = by_length_[static_cast<int>(std::lround(std::log2(mean)))];
      samples.work_s += mean;
      samples.skews_s.push_back(last - mean);
    }
}

RankSkew SkewSamples::result() const {
  constexpr std::size_t enough = 20;
  RankSkew skew{.ranks = ranks_, .points = {}};
  for (const auto& [length, samples] : by_length_) {
    if (samples.skews_s.size() < enough) continue;
    std::vector<double> skews_s = samples.skews_s;
    const auto median = skews_s.begin() + std::ssize(skews_s) / 2;
    std::nth_element(skews_s.begin(), median, skews_s.end());
    if (*median > 0)
      skew.points.push_back({samples.work_s / static_cast<double>(skews_s.size()), *median});
  }
  return skew;
}

}  // namespace shardmark
