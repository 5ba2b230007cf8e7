// SPDX-License-Identifier: Apache-2.0
// What no machine can do. These are the last resort of a verification: what a report says of itself
// is looked at first.
// What percentiles say about a sum. Reports give p50, p99 and the largest of many times, and
// elsewhere their sum or mean, so that one of both cannot be changed alone.
#pragma once

#include <cstddef>

#include <miniapp/tools/submission/checks/run_facts.hpp>

namespace shardmark {

/// Most of what one rank can do.
struct Limits {
  double tflop_per_s = 0;      // matrix products of the type in which the model computes
  double memory_gb_per_s = 0;  // read and written, in caches or memory
};

/// The limits of a rank of this run: those of its threads on a host, of a device on a GPU. Throws
/// ReportError.
Limits limits_of(const RunFacts& facts);

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
