// SPDX-License-Identifier: Apache-2.0
// What percentiles say about a sum. Reports give p50, p99 and the largest of many times, and
// elsewhere their sum or mean, so that one of both cannot be changed alone.
#pragma once

#include <cstddef>

namespace shardmark {

/// Nearest-rank percentiles of `count` values that are not negative.
struct Percentiles {
  double p50 = 0, p99 = 0;
  std::size_t count = 0;
};

/// The least sum that such values can have, if the largest of them is at least `largest`: those
/// below the median are 0, and each other one equals the percentile below it. Pure.
double least_sum(const Percentiles& of, double largest = 0);
/// The largest sum that they can have if none is larger than `largest`. Pure.
double largest_sum(const Percentiles& of, double largest);

}  // namespace shardmark
