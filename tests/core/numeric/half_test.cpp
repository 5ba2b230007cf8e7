// SPDX-License-Identifier: Apache-2.0
// 16-bit conversions: every value survives widening and rounding, and rounding goes to the nearest
// value, ties to even.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <core/numeric/half.hpp>

namespace shardmark::test::half_test {
namespace {

TEST(Half, every_value_survives_widening) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Bf16 b{static_cast<std::uint16_t>(bits)};
    const Fp16 h{static_cast<std::uint16_t>(bits)};
    if (std::isnan(widen(b)))
      EXPECT_TRUE(std::isnan(widen(round_bf16(widen(b)))));
    else
      EXPECT_EQ(round_bf16(widen(b)).bits, bits);
    if (std::isnan(widen(h)))
      EXPECT_TRUE(std::isnan(widen(round_fp16(widen(h)))));
    else
      EXPECT_EQ(round_fp16(widen(h)).bits, bits);
  }
}

// For every two neighbours the midpoint rounds to the even one, and the fp32 values next to the
// midpoint round to the nearer one.
template<class T, class Round>
void check_rounding(Round round, std::uint16_t first_infinite) {
  const float inf = std::numeric_limits<float>::infinity();
  for (std::uint16_t bits = 0; bits + 1 < first_infinite; ++bits) {
    const double low = widen(T{bits}), high = widen(T{static_cast<std::uint16_t>(bits + 1)});
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(round(middle).bits, bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(round(std::nextafter(middle, 0.0f)).bits, bits);
    ASSERT_EQ(round(std::nextafter(middle, inf)).bits, bits + 1);
    ASSERT_EQ(round(-middle).bits, 0x8000 | (bits % 2 == 0 ? bits : bits + 1));
  }
}
TEST(Half, bf16_rounds_to_nearest_even) {
  check_rounding<Bf16>(round_bf16, 0x7f80);
}
TEST(Half, fp16_rounds_to_nearest_even) {
  check_rounding<Fp16>(round_fp16, 0x7c00);
}

TEST(Half, beyond_the_largest_is_infinite) {
  const float inf = std::numeric_limits<float>::infinity();
  EXPECT_EQ(widen(round_fp16(65519.0f)), 65504.0f);
  EXPECT_EQ(widen(round_fp16(65520.0f)), inf);
  EXPECT_EQ(widen(round_fp16(-1e9f)), -inf);
  EXPECT_EQ(widen(round_fp16(inf)), inf);
  EXPECT_EQ(widen(round_bf16(std::numeric_limits<float>::max())), inf);
}

}  // namespace
}  // namespace shardmark::test::half_test
