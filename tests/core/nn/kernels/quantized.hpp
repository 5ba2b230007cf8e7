// SPDX-License-Identifier: Apache-2.0
// What the tests of the quantizations in 8 and in 4 bits share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include <core/numeric/half.hpp>
#include <core/random.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test {

/// Element `i` of uniform values between -scale and scale.
inline float uniform_value(std::uint64_t seed, std::int64_t i, float scale) {
  const std::uint64_t bits = mix(seed, 0, static_cast<std::uint64_t>(i));
  return scale * (static_cast<float>(bits >> 40) * 0x1p-23f - 1.0f);
}

/// Checks one group of `size` elements, quantized with `half` levels on each side of zero: its
/// step, each level by DeepSpeed's formula, and each restored element, which differs from the
/// original by half a step at most; by a whole one if it was clamped.
template<class Level>
void expect_group_restored(const Fp16* x, const Fp16* back, std::int64_t size, float step, int half,
                           const Level& level) {
  float largest = 0;
  for (std::int64_t i = 0; i < size; ++i) largest = std::max(largest, std::abs(widen(x[i])));
  const auto levels = static_cast<float>(half);
  ASSERT_NEAR(step, largest / levels, largest * 1e-6);
  for (std::int64_t i = 0; i < size; ++i) {
    const float have = widen(back[i]), want = widen(x[i]);
    // fp16 rounds the restored value by up to 2^-11 of it, or by 2^-25.
    const float rounding = std::max(std::abs(have) * 0x1p-11f, 0x1p-25f) + largest * 1e-6f;
    const float bound = want > (levels - 0.5f) * step ? step : step / 2;
    ASSERT_LE(std::abs(have - want), bound + rounding) << i << " of a group of " << size;
    const float quotient = std::rint(want * (2 * levels / (2 * largest)));
    ASSERT_EQ(level(i), std::min(levels - 1, std::max(-levels, quotient)));
  }
}

/// Fills three groups of 8 elements: zeros, ones with an infinity, ones with a NaN at their second
/// place.
inline void fill_with_extremes(Buffer<Fp16>& x) {
  for (std::int64_t i = 0; i < 24; ++i) x[i] = round_fp16(i < 8 ? 0.0f : 1.0f);
  x[9] = round_fp16(std::numeric_limits<float>::infinity());
  x[17] = round_fp16(std::numeric_limits<float>::quiet_NaN());
}

/// Checks what is restored from them.
inline void expect_extremes_restored(Buffer<Fp16>& back) {
  for (std::int64_t i = 0; i < 8; ++i) EXPECT_EQ(widen(back[i]), 0) << i;
  for (std::int64_t i = 8; i < 16; ++i) EXPECT_TRUE(std::isnan(widen(back[i]))) << i;
  EXPECT_EQ(widen(back[17]), 0) << "as a GPU converts it";
}

}  // namespace shardmark::test
