// SPDX-License-Identifier: Apache-2.0
// Figures that are computed from other figures, without ranks: percentiles, the factors of bus
// bandwidth, rates of links and of checkpoints, and measured times beside predicted ones.
#include <gtest/gtest.h>

#include <core/percentile.hpp>
#include <core/plan/price/collective_time.hpp>
#include <miniapp/measure/figures_of_merit.hpp>

namespace shardmark::test::derived_figures_test {
namespace {

// The smallest value that at least the given part of all values does not exceed.
TEST(Percentile, is_by_nearest_rank) {
  const std::vector<double> four{40, 10, 30, 20};
  EXPECT_EQ(percentile(four, 0), 10);
  EXPECT_EQ(percentile(four, 0.25), 10);
  EXPECT_EQ(percentile(four, 0.26), 20);
  EXPECT_EQ(percentile(four, 0.5), 20);
  EXPECT_EQ(percentile(four, 0.51), 30);
  EXPECT_EQ(percentile(four, 0.99), 40);
  EXPECT_EQ(percentile(four, 1), 40);
  EXPECT_EQ(percentile({7}, 0.5), 7);
  EXPECT_EQ(percentile({}, 0.5), 0);
}

TEST(Median, of_an_even_number_is_the_mean_of_the_middle_two) {
  EXPECT_EQ(median({40, 10, 30, 20}), 25);
  EXPECT_EQ(median({3, 1, 2}), 2);
  EXPECT_EQ(median({}), 0);
}

TEST(BusFactor, is_that_of_nccl_tests) {
  for (const int n : {1, 2, 3, 8}) {
    const double others = static_cast<double>(n - 1) / n;
    EXPECT_DOUBLE_EQ(ring_share(Op::all_reduce, n), 2 * others);
    EXPECT_DOUBLE_EQ(ring_share(Op::all_gather, n), others);
    EXPECT_DOUBLE_EQ(ring_share(Op::reduce_scatter, n), others);
    EXPECT_DOUBLE_EQ(ring_share(Op::reduce, n), 1);
    EXPECT_DOUBLE_EQ(ring_share(Op::broadcast, n), 1);
  }
}

TEST(Rates, divide_by_the_time_that_was_measured) {
  LinkResult link;
  link.bytes_per_step = 3e9;
  EXPECT_EQ(link.gb_per_s(), 0) << "nothing was carried";
  link.busy_s = 1.5;
  EXPECT_DOUBLE_EQ(link.gb_per_s(), 2);
  EXPECT_DOUBLE_EQ(gib_per_s(std::int64_t{3} << 30, 2), 1.5);
  EXPECT_EQ(gib_per_s(1, 0), 0);
  EXPECT_DOUBLE_EQ(mean_gib_per_s(std::int64_t{6} << 30, {1, 3}), 3);
  EXPECT_EQ(mean_gib_per_s(1, {}), 0);
}

// A storage benchmark has its own figures of merit.
TEST(FiguresOfMerit, are_tokens_or_rates_of_checkpoints) {
  using Merits = std::vector<FigureOfMerit>;
  Result r;
  r.tokens_per_s = 5;
  EXPECT_EQ(figures_of_merit(r), (Merits{{"tokens_per_s", 5, "tokens/s"}}));
  r.checkpoints.timed_bytes = std::int64_t{6} << 30;
  r.checkpoints.timed_write_s = {1, 3}, r.checkpoints.timed_read_s = {1, 1};
  EXPECT_EQ(figures_of_merit(r), (Merits{{"checkpoint_write_gib_per_s", 3, "GiB/s", "written"},
                                         {"checkpoint_read_gib_per_s", 6, "GiB/s", "read"}}));
}

TEST(Predictions, stand_beside_what_was_measured) {
  EXPECT_FALSE((PredictedTime{"step", 1, 0}).error());
  EXPECT_DOUBLE_EQ((PredictedTime{"step", 3, 2}).error().value(), 0.5);
  Result r;
  EXPECT_TRUE(predicted_times(r).empty());
  EXPECT_FALSE(measured_use(r).mfu);
  PredictedPoint& p = r.prediction.emplace().point;
  p.step_s = 3, p.mfu = 0.25, p.hfu = 0.5;
  p.priced.phase_s[Phase::forward] = 11, p.priced.phase_s[Phase::backward] = 12;
  p.priced.phase_s[Phase::step] = 13, p.priced.copies_s = 14, p.priced.exposed_s = 15;
  EXPECT_FALSE(measured_use(r).mfu) << "no step was timed";
  r.step_p50_s = 2;
  r.times = {.forward = 9, .backward = 9, .optimizer = 9, .copies = 9, .exposed = 9};
  r.median_times = {
      .forward = 1, .backward = 2, .optimizer = 3, .copies = 4, .exposed = 5, .step = 6};
  const auto times = predicted_times(r);
  ASSERT_EQ(times.size(), 6u);
  EXPECT_EQ(times[0].predicted_s, 3);
  EXPECT_EQ(times[0].measured_s, 6);
  for (std::size_t i = 1; i < times.size(); ++i) {
    EXPECT_EQ(times[i].predicted_s, 10 + static_cast<double>(i)) << times[i].name;
    EXPECT_EQ(times[i].measured_s, static_cast<double>(i)) << times[i].name;
  }
  // A step that is faster than predicted uses the device better.
  EXPECT_DOUBLE_EQ(measured_use(r).mfu.value(), 0.375);
  EXPECT_DOUBLE_EQ(measured_use(r).hfu.value(), 0.75);
}

}  // namespace
}  // namespace shardmark::test::derived_figures_test
