// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/percentile.hpp>
#include <miniapp/tools/submission/checks/order_statistics.hpp>

namespace shardmark {
namespace {

// How many values there are up to the median, from there to the p99, and above it.
struct Parts {
  double lower, middle, upper;
};
Parts parts_of(std::size_t count) {
  const std::size_t p50 = percentile_rank(0.5, count), p99 = percentile_rank(0.99, count);
  return {static_cast<double>(p50), static_cast<double>(p99 - p50),
          static_cast<double>(count - p99)};
}

}  // namespace

// The value at the rank of a percentile equals it, and belongs to the part below it.
double least_sum(const Percentiles& of, double largest) {
  if (of.count == 0) return 0;
  const auto [lower, middle, upper] = parts_of(of.count);
  const double top = std::max(of.p99, largest);
  const double of_middle = middle > 0 ? of.p50 * middle : 0;
  const double of_upper = upper > 0 ? of.p99 * upper : 0;
  return of_middle + of_upper + top;
}

double largest_sum(const Percentiles& of, double largest) {
  if (of.count == 0) return 0;
  const auto [lower, middle, upper] = parts_of(of.count);
  return of.p50 * lower + of.p99 * middle + largest * upper;
}

}  // namespace shardmark
