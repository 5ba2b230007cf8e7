// SPDX-License-Identifier: Apache-2.0
// Rules: the expected largest of many draws is exact for distributions whose answer is known, a
// fitted tail goes on where the samples end, and thinning keeps what the figures need.
#include <cmath>
#include <numeric>

#include <gtest/gtest.h>

#include <miniapp/tools/noise/distribution.hpp>

namespace shardmark::test::distribution_test {
namespace {

Distribution two_points(std::int64_t zeros, std::int64_t ones) {
  return {.values = {{0, zeros}, {1, ones}}};
}

// The middles of n equally likely parts of the exponential distribution with mean 1.
Distribution exponential(int n) {
  std::vector<double> samples;
  for (int i = 0; i < n; ++i) samples.push_back(-std::log1p(-(i + 0.5) / n));
  return distribution_of(samples);
}

double harmonic(int n) {
  double sum = 0;
  for (int i = 1; i <= n; ++i) sum += 1.0 / i;
  return sum;
}

TEST(Distribution, joins_equal_values_and_counts_them) {
  const Distribution d = distribution_of({3, 1, 2, 1, 3, 3});
  ASSERT_EQ(d.values.size(), 3u);
  EXPECT_EQ(d.values[0].count, 2);
  EXPECT_EQ(d.values[2].count, 3);
  EXPECT_EQ(d.count(), 6);
  EXPECT_DOUBLE_EQ(d.mean(), 13.0 / 6);
  EXPECT_EQ(d.quantile(1.0 / 3), 1);
  EXPECT_EQ(d.quantile(0.34), 2);
  EXPECT_EQ(d.quantile(1), 3);
  EXPECT_EQ(Distribution{}.mean(), 0);
  const Distribution both = merged({d, two_points(1, 1)});
  EXPECT_EQ(both.count(), 8);
  EXPECT_EQ(both.values[1].count, 3);
  const Distribution delays = above(d, 2);
  ASSERT_EQ(delays.values.size(), 2u);
  EXPECT_EQ(delays.values[0].s, 0);
  EXPECT_EQ(delays.values[0].count, 3);
  EXPECT_EQ(delays.values[1].s, 1);
}

TEST(Distribution, expects_the_largest_of_two_points) {
  // One draw in a hundred is 1: the largest is 1 unless all are 0.
  for (const double n : {1.0, 2.0, 64.0, 1024.0})
    EXPECT_NEAR(expected_maximum(two_points(99, 1), n), 1 - std::pow(0.99, n), 1e-12);
  EXPECT_EQ(expected_maximum(Distribution{}, 4), 0);
}

TEST(Distribution, expects_the_largest_of_few_uniform_draws) {
  // Of two dice: 161 / 36.
  EXPECT_NEAR(expected_maximum(distribution_of({1, 2, 3, 4, 5, 6}), 2), 161.0 / 36, 1e-12);
}

TEST(Distribution, expects_the_largest_of_one_draw_from_each) {
  const std::vector<Distribution> same(3, distribution_of({1, 2, 3, 4}));
  EXPECT_NEAR(expected_maximum(same), expected_maximum(same[0], 3), 1e-12);
  const std::vector<Distribution> apart{distribution_of({1, 2}), distribution_of({5, 7})};
  EXPECT_NEAR(expected_maximum(apart), 6, 1e-12);
  // 2 and 1 or 4: 2 with 1, 4 with 4; 3 with 1, 4 with 4.
  const std::vector<Distribution> mixed{distribution_of({2, 3}), distribution_of({1, 4})};
  EXPECT_NEAR(expected_maximum(mixed), (2 + 4 + 3 + 4) / 4.0, 1e-12);
}

TEST(Distribution, says_how_likely_a_draw_exceeds_what_was_seen) {
  EXPECT_DOUBLE_EQ(beyond_seen(1, 1), 0.5);
  EXPECT_DOUBLE_EQ(beyond_seen(1000, 1000), 0.5);
  EXPECT_LT(beyond_seen(64, 1'000'000), 1e-4);
}

TEST(Distribution, goes_on_with_the_tail_of_an_exponential_distribution) {
  const Distribution d = exponential(20'000);
  const std::optional<Tail> tail = fit_tail(d);
  ASSERT_TRUE(tail);
  EXPECT_EQ(tail->samples, 200);
  EXPECT_NEAR(tail->shape, 0, 0.03);
  EXPECT_NEAR(tail->scale_s, 1, 0.05);
  // The largest of n draws has the mean 1 + 1/2 + … + 1/n.
  for (const int n : {1, 64, 1024, 16384, 262144})
    EXPECT_NEAR(expected_maximum(d, *tail, n), harmonic(n), 0.03 * harmonic(n)) << n;
  // Without a tail it ends at what was seen.
  EXPECT_LT(expected_maximum(d, 262144), d.largest() + 1e-9);
  EXPECT_LT(d.largest(), harmonic(262144));
}

TEST(Distribution, finds_heavy_tails_heavy_and_bounded_ones_bounded) {
  std::vector<double> pareto, uniform;
  for (int i = 0; i < 20'000; ++i) {
    const double p = (i + 0.5) / 20'000;
    pareto.push_back(std::pow(1 - p, -0.4));
    uniform.push_back(p);
  }
  EXPECT_NEAR(fit_tail(distribution_of(pareto))->shape, 0.4, 0.06);
  const Distribution flat = distribution_of(uniform);
  EXPECT_NEAR(fit_tail(flat)->shape, -0.5, 0.01);  // -1, but bounded
  EXPECT_NEAR(expected_maximum(flat, *fit_tail(flat), 1000), 1000.0 / 1001, 0.02);
}

TEST(Distribution, has_no_tail_where_there_is_nothing_to_fit) {
  EXPECT_FALSE(fit_tail(exponential(299)));
  EXPECT_FALSE(fit_tail(two_points(500, 500)));
  EXPECT_FALSE(fit_tail(Distribution{}));
}

TEST(Distribution, keeps_count_mean_and_largest_values_when_it_is_thinned) {
  const Distribution d = exponential(10'000);
  const Distribution thin = thinned(d, 200);
  EXPECT_LE(thin.values.size(), 201u);
  EXPECT_EQ(thin.count(), d.count());
  EXPECT_NEAR(thin.mean(), d.mean(), 1e-9);
  for (std::size_t i = 1; i <= 100; ++i)
    EXPECT_EQ(thin.values[thin.values.size() - i].s, d.values[d.values.size() - i].s);
  for (std::size_t i = 1; i < thin.values.size(); ++i)
    EXPECT_LT(thin.values[i - 1].s, thin.values[i].s);
  EXPECT_NEAR(expected_maximum(thin, 1024), expected_maximum(d, 1024), 0.01);
  EXPECT_EQ(thinned(d, 10'000).values.size(), 10'000u);
}

}  // namespace
}  // namespace shardmark::test::distribution_test
