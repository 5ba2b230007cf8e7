// SPDX-License-Identifier: Apache-2.0
// exp and GELU as plain arithmetic: their errors in units of the last place, over the range in
// which they are used.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <core/nn/kernels/math.hpp>

namespace shardmark::test::math_test {
namespace {

double ulps(float value, double exact) {
  const float nearest = std::abs(static_cast<float>(exact));
  const float above = std::nextafter(nearest, std::numeric_limits<float>::infinity());
  return std::abs(static_cast<double>(value) - exact) / (static_cast<double>(above) - nearest);
}

TEST(math, exp_is_within_little_more_than_a_unit_in_the_last_place) {
  double worst = 0;
  for (int i = 0; i <= 4000000; ++i) {
    const float x = -87.3f + static_cast<float>(i) * (175.6f / 4000000.0f);
    worst = std::max(worst, ulps(exp_f32(x), std::exp(static_cast<double>(x))));
  }
  for (int i = 0; i <= 1000000; ++i) {
    const float x = -static_cast<float>(i) * 1e-6f;
    worst = std::max(worst, ulps(exp_f32(x), std::exp(static_cast<double>(x))));
  }
  EXPECT_LT(worst, 1.02);
}

TEST(math, exp_at_the_ends) {
  EXPECT_EQ(exp_f32(0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-0.0f), 1.0f);
  EXPECT_EQ(exp_f32(-88.0f), 0.0f);
  EXPECT_EQ(exp_f32(-std::numeric_limits<float>::infinity()), 0.0f);
  EXPECT_TRUE(std::isfinite(exp_f32(1000.0f)));
  EXPECT_GT(exp_f32(1000.0f), 2e38f);
  EXPECT_TRUE(std::isnan(exp_f32(std::numeric_limits<float>::quiet_NaN())));
}

TEST(math, turns_are_cosine_and_sine_at_positions_of_any_sequence) {
  double worst = 0;
  auto check = [&](double angle) {
    const CosSin t = cos_sin_f32(angle);
    worst = std::max({worst, std::abs(t.cos - std::cos(angle)), std::abs(t.sin - std::sin(angle))});
  };
  for (int i = -1000000; i <= 1000000; ++i) {
    check(i * 1e-5);
    check(i * 0.7853981);  // the ends of the quadrants
    check(i * 257.13);
  }
  EXPECT_LT(worst, 1e-7);
  EXPECT_EQ(cos_sin_f32(0).cos, 1.0f);
  EXPECT_EQ(cos_sin_f32(0).sin, 0.0f);
}

TEST(math, gelu_and_its_slope_equal_the_tanh_form) {
  for (int i = -120000; i <= 120000; ++i) {
    const float x = static_cast<float>(i) * 1e-4f;
    const double d = x, c = std::sqrt(2 / M_PI);
    const double t = std::tanh(c * (d + 0.044715 * d * d * d));
    const double value = 0.5 * d * (1 + t);
    const double slope = 0.5 * (1 + t) + 0.5 * d * (1 - t * t) * c * (1 + 3 * 0.044715 * d * d);
    const GeluValue g = gelu_with_slope_f32(x);
    ASSERT_NEAR(g.value, value, 4e-7 * std::abs(value) + 1e-7) << x;
    ASSERT_NEAR(g.slope, slope, 1e-6) << x;
    ASSERT_EQ(g.value, gelu_f32(x)) << x;
  }
  EXPECT_EQ(gelu_f32(1e4f), 1e4f);
  EXPECT_NEAR(gelu_f32(-1e4f), 0.0f, 1e-29f);
  EXPECT_TRUE(std::isnan(gelu_f32(std::numeric_limits<float>::quiet_NaN())));
}

}  // namespace
}  // namespace shardmark::test::math_test
