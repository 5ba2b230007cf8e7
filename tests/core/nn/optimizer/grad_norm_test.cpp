// SPDX-License-Identifier: Apache-2.0
// The global norm: the exact sum does not depend on the split into shards or on their order, is
// exact over the whole range of fp32, and detects values that are not finite; clipping follows from
// the norm.
#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include <core/nn/optimizer/grad_norm.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::grad_norm_test {
namespace {

using LimbArray = std::array<std::int64_t, exact_sum_limbs>;

struct GradNorm : KernelTest {
  LimbArray limbs(const float* x, std::int64_t n) {
    Buffer<float> values(n);
    std::memcpy(values.data(), x, static_cast<std::size_t>(n) * sizeof(float));
    Buffer<std::int64_t> out(exact_sum_limbs);
    sum_squares_exact(ctx, n, values.data(), out.data(), true);
    LimbArray a;
    std::memcpy(a.data(), out.data(), sizeof a);
    return a;
  }
  std::array<double, 2> clip(const LimbArray& sum, double clipping) {
    Buffer<std::int64_t> in(exact_sum_limbs);
    std::memcpy(in.data(), sum.data(), sizeof sum);
    Buffer<double> out(2);
    clip_from_limbs(ctx, in.data(), {clipping, 1}, out.data());
    return {out[0], out[1]};
  }

  // Random bit patterns with every exponent, including denormals.
  static Buffer<float> wild(std::int64_t n) {
    Buffer<float> x(n);
    for (std::int64_t i = 0; i < n; ++i) {
      std::uint32_t bits = static_cast<std::uint32_t>(mix(4, 4, i));
      if ((bits >> 23 & 0xFF) == 0xFF) bits &= ~(1u << 30);
      if (i % 5 == 0) bits &= 0x807FFFFFu;
      std::memcpy(&x[i], &bits, sizeof bits);
    }
    return x;
  }
};

TEST_F(GradNorm, exact_sum_does_not_depend_on_the_split_or_its_order) {
  const std::int64_t n = 100003;
  const auto x = wild(n);
  const LimbArray whole = limbs(x.data(), n);
  std::mt19937 random(1);
  for (int round = 0; round < 5; ++round) {
    std::vector<std::int64_t> cuts{0, n};
    for (int c = 0; c < 1 << round; ++c) cuts.push_back(random() % n);
    std::sort(cuts.begin(), cuts.end());
    std::vector<std::size_t> order(cuts.size() - 1);
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random);

    // One rank accumulates in any order …
    Buffer<std::int64_t> out(exact_sum_limbs);
    bool first = true;
    for (const std::size_t i : order) {
      sum_squares_exact(ctx, cuts[i + 1] - cuts[i], x.data() + cuts[i], out.data(), first);
      first = false;
    }
    for (int l = 0; l < exact_sum_limbs; ++l) EXPECT_EQ(out[l], whole[l]) << "limb " << l;

    // … or ranks add limb by limb, as an all_reduce does: the norm is the same, bit by bit.
    LimbArray ranks{};
    for (const std::size_t i : order) {
      const LimbArray part = limbs(x.data() + cuts[i], cuts[i + 1] - cuts[i]);
      for (int l = 0; l < exact_sum_limbs; ++l) {
        EXPECT_LT(part[l], std::int64_t{1} << 32);
        ranks[l] += part[l];
      }
    }
    EXPECT_EQ(clip(ranks, 1.0), clip(whole, 1.0));
  }
}

TEST_F(GradNorm, exact_sum_is_exact_from_the_smallest_denormal_to_the_largest_number) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float huge = std::numeric_limits<float>::max();
  for (const float v : {tiny, 3 * tiny, std::numeric_limits<float>::min(), 1e-20f, 1.0f, 1.5f, 0.1f,
                        12345.678f, huge}) {
    EXPECT_EQ(clip(limbs(&v, 1), 0)[0], std::sqrt(double(v) * double(v))) << v;
    const std::array<float, 4> four{v, -v, v, -v};
    EXPECT_EQ(clip(limbs(four.data(), 4), 0)[0], 2 * std::sqrt(double(v) * double(v))) << v;
  }
  // A double sum would lose the small term of 1 + 2^-100; the limbs keep it.
  const std::array<float, 2> both{1.0f, std::ldexp(1.0f, -50)};
  const float one = 1.0f;
  EXPECT_NE(limbs(both.data(), 2), limbs(&one, 1));
}

TEST_F(GradNorm, native_and_exact_agree_and_native_blocks_do_not_lose_digits) {
  const std::int64_t n = 50001;
  Buffer<float> x(n);
  long double expected = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    x[i] = static_cast<float>(mix(1, 1, i) % 100000) * 1e-6f;
    expected += static_cast<long double>(x[i]) * x[i];
  }
  Buffer<double> sum(1), out(2);
  sum_squares(ctx, n, x.data(), sum.data(), true);
  EXPECT_NEAR(sum[0] / static_cast<double>(expected), 1.0, 1e-14);
  const double once = sum[0];
  sum_squares(ctx, n, x.data(), sum.data(), false);
  EXPECT_EQ(sum[0], 2 * once);
  EXPECT_NEAR(clip(limbs(x.data(), n), 0)[0] / std::sqrt(once), 1.0, 1e-14);
}

TEST_F(GradNorm, clipping_follows_torch) {
  const std::array<float, 2> x{3.0f, 4.0f};
  const LimbArray sum = limbs(x.data(), 2);
  EXPECT_EQ(clip(sum, 0), (std::array<double, 2>{5.0, 1.0}));     // 0: no clipping
  EXPECT_EQ(clip(sum, 10.0), (std::array<double, 2>{5.0, 1.0}));  // below the bound
  EXPECT_EQ(clip(sum, 1.0), (std::array<double, 2>{5.0, 1.0 / (5.0 + 1e-6)}));
  Buffer<double> squares(1), out(2);
  squares[0] = 25;
  clip_from_sum(ctx, squares.data(), {1.0, 1}, out.data());
  EXPECT_EQ(out[0], 5.0);
  EXPECT_EQ(out[1], 1.0 / (5.0 + 1e-6));
}

TEST_F(GradNorm, what_is_not_finite_is_never_lost) {
  for (const float bad : {std::numeric_limits<float>::infinity(), std::nanf("")}) {
    const Buffer<float> x(20000);
    std::fill_n(x.data(), 20000, 1.0f);
    x[12345] = bad;
    EXPECT_EQ(limbs(x.data(), 20000)[exact_sum_payload_limbs], 1);
    EXPECT_TRUE(std::isnan(clip(limbs(x.data(), 20000), 1.0)[0]));
    Buffer<double> sum(1), out(2);
    sum_squares(ctx, 20000, x.data(), sum.data(), true);
    clip_from_sum(ctx, sum.data(), {1.0, 1}, out.data());
    EXPECT_FALSE(std::isfinite(out[0]));
    EXPECT_FALSE(out[1] > 0);  // gradients are not scaled as if they were finite
  }
}

}  // namespace
}  // namespace shardmark::test::grad_norm_test
