// SPDX-License-Identifier: Apache-2.0
// The bounds that percentiles give a sum hold for any values, and are reached by some.
#include <algorithm>
#include <numeric>

#include <gtest/gtest.h>

#include <core/percentile.hpp>
#include <core/random.hpp>
#include <miniapp/tools/submission/checks/limits.hpp>

namespace shardmark::test::order_statistics_test {
namespace {

Percentiles percentiles_of(const std::vector<double>& values) {
  return {percentile(values, 0.5), percentile(values, 0.99), values.size()};
}

TEST(OrderStatistics, BoundTheSumOfAnyValues) {
  for (std::size_t n = 1; n < 260; ++n) {
    std::vector<double> values;
    for (std::size_t i = 0; i < n; ++i)
      values.push_back(static_cast<double>(splitmix64(n * 1000 + i) % 1000));
    const double sum = std::accumulate(values.begin(), values.end(), 0.0);
    const double largest = *std::max_element(values.begin(), values.end());
    EXPECT_LE(least_sum(percentiles_of(values), largest), sum) << n;
    EXPECT_LE(least_sum(percentiles_of(values)), sum) << n;
    EXPECT_GE(largest_sum(percentiles_of(values), largest), sum) << n;
  }
}

TEST(OrderStatistics, ReachTheirBounds) {
  // 4 values below or at the median 3 and 4 above it, of which the last two are p99 and largest.
  const std::vector<double> least{0, 0, 0, 3, 3, 3, 3, 9};
  EXPECT_EQ(least_sum(percentiles_of(least), 9), 21);
  const std::vector<double> most{3, 3, 3, 3, 9, 9, 9, 9};
  EXPECT_EQ(largest_sum(percentiles_of(most), 9), 48);
  EXPECT_EQ(least_sum({5, 5, 1}, 5), 5);
  EXPECT_EQ(largest_sum({5, 5, 1}, 5), 5);
  EXPECT_EQ(least_sum({0, 0, 0}), 0);
}

}  // namespace
}  // namespace shardmark::test::order_statistics_test
