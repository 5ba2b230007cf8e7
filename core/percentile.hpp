// SPDX-License-Identifier: Apache-2.0
// Nearest-rank percentiles, and medians.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <vector>

namespace shardmark {

/// Which of `count` sorted values is the percentile `p` (0 to 1), counted from 1. `count` is at
/// least 1. Pure.
inline std::size_t percentile_rank(double p, std::size_t count) {
  const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(count)));
  return std::clamp<std::size_t>(rank, 1, count);
}

/// The nearest-rank percentile: the smallest value that at least the part `p` (0 to 1) of all
/// values does not exceed; 0 for no values. Pure.
inline double percentile(std::vector<double> values, double p) {
  if (values.empty()) return 0;
  const std::size_t i = percentile_rank(p, values.size()) - 1;
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(i), values.end());
  return values[i];
}

/// The middle one of the values in order, or the mean of the middle two; 0 for no values. Pure.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return (values[(values.size() - 1) / 2] + values[values.size() / 2]) / 2;
}

}  // namespace shardmark
