// SPDX-License-Identifier: Apache-2.0
// Rule: block quantization follows DeepSpeed's formula, and a restored element differs from the
// original by at most half a step; by a whole step only if it is clamped.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <core/nn/kernels/quantize.hpp>
#include <core/random.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::quantize_test {
namespace {

using shardmark::testing::Buffer;

struct Quantize : shardmark::testing::KernelTest {};

float value(std::int64_t i, float scale) {
  const std::uint64_t bits = mix(7, 0, static_cast<std::uint64_t>(i));
  return scale * (static_cast<float>(bits >> 40) * 0x1p-23f - 1.0f);
}

TEST_F(Quantize, restores_each_element_within_its_step) {
  for (const std::int64_t size : {8, 72, 1144, 8000}) {
    const std::int64_t groups = 5, elems = size * groups;
    Buffer<Fp16> x(elems), back(elems);
    Buffer<std::int8_t> q(elems);
    Buffer<float> steps(groups);
    for (std::int64_t i = 0; i < elems; ++i)  // groups of very different sizes
      x[i] = round_fp16(value(i, std::ldexp(1.0f, static_cast<int>(i / size) * 3 - 8)));
    quantize(ctx, elems, groups, q.data(), steps.data(), x.data());
    dequantize(ctx, elems, groups, back.data(), q.data(), steps.data());
    for (std::int64_t g = 0; g < groups; ++g) {
      float largest = 0;
      for (std::int64_t i = g * size; i < (g + 1) * size; ++i)
        largest = std::max(largest, std::abs(widen(x[i])));
      ASSERT_NEAR(steps[g], largest / 128, largest * 1e-6);
      for (std::int64_t i = g * size; i < (g + 1) * size; ++i) {
        const float have = widen(back[i]), want = widen(x[i]);
        // fp16 rounds the restored value by up to 2^-11 of it, or by 2^-25.
        const float rounding = std::max(std::abs(have) * 0x1p-11f, 0x1p-25f) + largest * 1e-6f;
        const float bound = want > 127.5f * steps[g] ? steps[g] : steps[g] / 2;
        ASSERT_LE(std::abs(have - want), bound + rounding) << i << " of groups of " << size;
        const float quotient = std::rint(want * (256.0f / (2 * largest)));
        ASSERT_EQ(q[i], std::min(127.0f, std::max(-128.0f, quotient)));
      }
    }
  }
}

TEST_F(Quantize, keeps_zeros_and_what_is_not_finite_shows) {
  Buffer<Fp16> x(24), back(24);
  Buffer<std::int8_t> q(24);
  Buffer<float> steps(3);
  for (std::int64_t i = 0; i < 8; ++i) x[i] = round_fp16(0);
  for (std::int64_t i = 8; i < 24; ++i) x[i] = round_fp16(1);
  x[9] = round_fp16(std::numeric_limits<float>::infinity());
  x[17] = round_fp16(std::numeric_limits<float>::quiet_NaN());
  quantize(ctx, 24, 3, q.data(), steps.data(), x.data());
  dequantize(ctx, 24, 3, back.data(), q.data(), steps.data());
  EXPECT_EQ(steps[0], 1);
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_EQ(widen(back[i]), 0) << i;
  for (std::int64_t i = 8; i < 16; ++i) EXPECT_TRUE(std::isnan(widen(back[i]))) << i;
  EXPECT_EQ(widen(back[17]), 0) << "as a GPU converts it";
  EXPECT_EQ(q[16], 127);
}

}  // namespace
}  // namespace shardmark::quantize_test
