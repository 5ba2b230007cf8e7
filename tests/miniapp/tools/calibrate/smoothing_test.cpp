// SPDX-License-Identifier: Apache-2.0
// Rules: noise of points is averaged with that of their neighbours, what varies smoothly with the
// sizes stays as it is, and a rank that lost its core for a while does not change a mean.
#include <cmath>

#include <gtest/gtest.h>

#include <core/random.hpp>
#include <miniapp/tools/calibrate/samples.hpp>
#include <miniapp/tools/calibrate/smoothing.hpp>

namespace shardmark::test::smoothing_test {
namespace {

// Larger products are done at higher rates.
double true_seconds(double m, double n, double k) {
  return 2 * m * n * k / (50e9 * std::pow(m * n * k, 0.02));
}

// Products of sizes from 64 to 1024, whose times are too long or too short by up to `noise`.
ProductTimes products(double noise) {
  ProductTimes t;
  std::uint64_t drawn = 1;
  const auto factor = [&] {
    drawn = splitmix64(drawn);
    return 1 + noise * (2 * static_cast<double>(drawn >> 11) / (1LL << 53) - 1);
  };
  for (double m = 64; m <= 1024; m *= 2)
    for (double n = 64; n <= 1024; n *= 2)
      for (double k = 64; k <= 1024; k *= 2)
        t.points.push_back({m, n, k, 1, true_seconds(m, n, k) * factor()});
  return t;
}

double mean_error(const ProductTimes& t) {
  double sum = 0;
  for (const auto& p : t.points) sum += std::abs(p.seconds / true_seconds(p.m, p.n, p.k) - 1);
  return sum / static_cast<double>(t.points.size());
}

TEST(Smoothing, AveragesNoise) {
  std::vector<ProductTimes> noisy{products(0.2)};
  const double before = mean_error(noisy.front());
  smooth(noisy);
  EXPECT_LT(mean_error(noisy.front()), before / 2);
}

TEST(Smoothing, KeepsWhatVariesSmoothly) {
  std::vector<ProductTimes> quiet{products(0)};
  smooth(quiet);
  EXPECT_LT(mean_error(quiet.front()), 1e-3);
}

TEST(Smoothing, ErrorsOfPointsThatAreLeftOutAreThoseOfTheNoise) {
  DeviceModel device;
  device.products = {products(0)};
  EXPECT_LT(held_out_error(leave_one_out(device)), 5e-3);
  device.products = {products(0.2)};
  const double error = held_out_error(leave_one_out(device));
  EXPECT_GT(error, 0.05);
  EXPECT_LT(error, 0.2);
}

TEST(Means, KeepWhatDisturbsOftenAndDropWhatDisturbsRarely) {
  EXPECT_DOUBLE_EQ(mean_without_outliers({1.5, 1, 1.5, 1}), 1.25);
  EXPECT_DOUBLE_EQ(mean_without_outliers({1, 5, 1.2}), 1.1);
  EXPECT_DOUBLE_EQ(mean_without_outliers({1, 30}), 1);
  EXPECT_DOUBLE_EQ(mean_without_outliers({3}), 3);
}

}  // namespace
}  // namespace shardmark::test::smoothing_test
