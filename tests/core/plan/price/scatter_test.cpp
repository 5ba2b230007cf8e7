// SPDX-License-Identifier: Apache-2.0
// Rules of interpolation: a measured point is met, power laws are met between points, and beyond
// the points the estimate says how far it goes. Told to average, it does not follow a single point.
#include <cmath>

#include <gtest/gtest.h>

#include <core/plan/price/machine.hpp>
#include <core/plan/price/scatter.hpp>

namespace shardmark::test::scatter_test {
namespace {

Scatter power_law() {
  Scatter s;
  for (const double m : {64.0, 256.0, 1024.0})
    for (const double n : {100.0, 400.0, 1600.0})
      s.add({m, n, 1, 1}, std::pow(m, -0.2) * std::pow(n, 0.1));
  return s;
}

TEST(Scatter, MeetsThePoints) {
  Scatter s;
  s.add({64, 64, 1, 1}, 3);
  s.add({128, 64, 1, 1}, 2);
  s.add({64, 128, 1, 1}, 7);
  s.add({512, 512, 1, 1}, 1);
  EXPECT_NEAR(s.at({64, 128, 1, 1}).value, 7, 0.05);
  EXPECT_NEAR(s.at({128, 64, 1, 1}).value, 2, 0.05);
}

TEST(Scatter, FollowsAPowerLawBetweenPoints) {
  const Scatter s = power_law();
  for (const double m : {90.0, 300.0, 700.0})
    for (const double n : {150.0, 900.0})
      EXPECT_NEAR(s.at({m, n, 1, 1}).value / (std::pow(m, -0.2) * std::pow(n, 0.1)), 1, 0.05);
}

TEST(Scatter, AveragesOverADistance) {
  Scatter s(0.5);
  for (const double n : {80.0, 90.0, 110.0, 120.0}) s.add({n, 1, 1, 1}, 2);
  s.add({100, 1, 1, 1}, 4);
  const double disturbed = s.at({100, 1, 1, 1}).value;
  EXPECT_GT(disturbed, 2);
  EXPECT_LT(disturbed, 2.5);
}

TEST(Scatter, SaysHowFarItExtrapolates) {
  const Scatter s = power_law();
  EXPECT_NEAR(s.at({512, 512, 1, 1}).beyond, 1, 1e-9);
  EXPECT_NEAR(s.at({4096, 512, 1, 1}).beyond, 4, 1e-9);
  EXPECT_NEAR(s.at({512, 25, 1, 1}).beyond, 4, 1e-9);
}

TEST(Scatter, OnePointIsEnough) {
  Scatter s;
  s.add({10, 1, 1, 1}, 5);
  EXPECT_NEAR(s.at({1000, 1, 1, 1}).value, 5, 1e-9);
}

TEST(Curve, InterpolatesAndExtrapolates) {
  const std::vector<TimePoint> curve{{1000, 1}, {4000, 2}, {16000, 8}};
  EXPECT_NEAR(on_curve(curve, 10).value, 1, 1e-9);
  EXPECT_NEAR(on_curve(curve, 4000).value, 2, 1e-9);
  EXPECT_NEAR(on_curve(curve, 2000).value, std::sqrt(2.0), 1e-9);
  EXPECT_NEAR(on_curve(curve, 32000).value, 16, 1e-9);
  EXPECT_NEAR(on_curve(curve, 32000).beyond, 2, 1e-9);
}

}  // namespace
}  // namespace shardmark::test::scatter_test
