// SPDX-License-Identifier: Apache-2.0
// Kernels over stored parameters and gradients: fp32 arithmetic and one rounding, for all three
// types.
#include <array>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include <core/nn/kernels/storage.hpp>
#include <core/nn/optimizer/grad_norm.hpp>
#include <core/nn/optimizer/init.hpp>
#include <core/numeric/half.hpp>
#include <core/random.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::storage_test {
namespace {

struct Storage : KernelTest {
  template<class T>
  static Stored stored(const Buffer<T>& b) {
    if constexpr (std::is_same_v<T, Bf16>) return {Dtype::bf16, b.data()};
    if constexpr (std::is_same_v<T, Fp16>) return {Dtype::fp16, b.data()};
    if constexpr (std::is_same_v<T, double>) return {Dtype::fp64, b.data()};
    return {Dtype::fp32, b.data()};
  }
  // All bit patterns of a 16-bit type.
  template<class T>
  static Buffer<T> all_values() {
    Buffer<T> x(65536);
    for (std::int64_t i = 0; i < x.size(); ++i) x[i].bits = static_cast<std::uint16_t>(i);
    return x;
  }
};

template<class T>
struct Sixteen : Storage {};
using SixteenTypes = ::testing::Types<Bf16, Fp16>;
TYPED_TEST_SUITE(Sixteen, SixteenTypes);

TYPED_TEST(Sixteen, every_value_survives_the_way_through_fp32) {
  const auto x = this->template all_values<TypeParam>();
  Buffer<float> wide(x.size());
  Buffer<TypeParam> back(x.size());
  convert(this->ctx, x.size(), this->stored(wide), this->stored(x));
  convert(this->ctx, x.size(), this->stored(back), this->stored(wide));
  for (std::int64_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(wide[i] == wide[i], widen(x[i]) == widen(x[i])) << i;
    if (wide[i] != wide[i]) continue;
    ASSERT_EQ(back[i].bits, x[i].bits) << i;
  }
}

TYPED_TEST(Sixteen, sums_and_quotients_are_rounded_once) {
  const auto x = this->template all_values<TypeParam>();
  Buffer<TypeParam> y(x.size()), sum(x.size()), third(x.size());
  for (std::int64_t i = 0; i < x.size(); ++i) y[i].bits = static_cast<std::uint16_t>(i * 40503 + 7);
  convert(this->ctx, x.size(), this->stored(sum), this->stored(x));
  convert(this->ctx, x.size(), this->stored(third), this->stored(x));
  accumulate(this->ctx, x.size(), this->stored(sum), this->stored(y));
  divide(this->ctx, x.size(), this->stored(third), 3);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    TypeParam added{}, divided{};
    round_to(added, widen(x[i]) + widen(y[i]));
    round_to(divided, widen(x[i]) / 3.0f);
    if (widen(divided) != widen(divided) || widen(added) != widen(added)) continue;
    ASSERT_EQ(sum[i].bits, added.bits) << i;
    ASSERT_EQ(third[i].bits, divided.bits) << i;
  }
}

// A copy that divides gives the same bits as a division before the copy: for small buffers and for
// large ones, which bypass the caches, and for equal and different types.
TYPED_TEST(Sixteen, a_copy_divides_as_a_division_before_it) {
  const auto values = this->template all_values<TypeParam>();
  for (const std::int64_t n : {std::int64_t{1000}, values.size() * 10})
    for (const double by : {3.0, 4.0}) {
      Buffer<TypeParam> x(n), divided(n), want(n), got(n);
      Buffer<float> wide(n), wide_divided(n), wide_want(n), wide_got(n);
      for (std::int64_t i = 0; i < n; ++i) x[i] = values[i * 77 % values.size()];
      for (std::int64_t i = 0; i < n; ++i) wide[i] = widen(x[i]) * 1.001f;
      convert(this->ctx, n, this->stored(divided), this->stored(x));
      convert(this->ctx, n, this->stored(wide_divided), this->stored(wide));
      divide(this->ctx, n, this->stored(divided), by);
      divide(this->ctx, n, this->stored(wide_divided), by);
      const auto expect_same = [&](auto& to, auto& as_before, auto& from, auto& before) {
        convert(this->ctx, n, this->stored(as_before), this->stored(before));
        convert(this->ctx, n, this->stored(to), this->stored(from), by);
        for (std::int64_t i = 0; i < n; ++i) {
          if (widen(as_before[i]) != widen(as_before[i])) continue;
          ASSERT_EQ(widen(to[i]), widen(as_before[i])) << i << " / " << by;
        }
      };
      expect_same(got, want, x, divided);
      expect_same(wide_got, wide_want, x, divided);
      expect_same(got, want, wide, wide_divided);
      constexpr int rows = 2;
      interleave(this->ctx, n, rows, n / rows, this->stored(want), this->stored(divided));
      interleave(this->ctx, n, rows, n / rows, this->stored(got), this->stored(x), by);
      for (std::int64_t i = 0; i < n; ++i) {
        if (widen(want[i]) != widen(want[i])) continue;
        ASSERT_EQ(got[i].bits, want[i].bits) << i << " / " << by;
      }
    }
}

// For a power of two, a multiplication replaces the division and gives the same bits.
TYPED_TEST(Sixteen, halves_and_quarters_are_quotients_too) {
  const auto x = this->template all_values<TypeParam>();
  for (const float by : {2.0f, 4.0f, 0.5f, 65536.0f}) {
    Buffer<TypeParam> part(x.size());
    convert(this->ctx, x.size(), this->stored(part), this->stored(x));
    divide(this->ctx, x.size(), this->stored(part), by);
    for (std::int64_t i = 0; i < x.size(); ++i) {
      TypeParam divided{};
      round_to(divided, widen(x[i]) / by);
      if (widen(divided) != widen(divided)) continue;
      ASSERT_EQ(part[i].bits, divided.bits) << i;
    }
  }
}

// Large results bypass the caches in full cache lines, wherever they start.
TYPED_TEST(Sixteen, large_results_are_those_of_small_ones_and_keep_to_their_place) {
  const std::int64_t n = (std::int64_t{1} << 20) + 12347;
  for (const std::int64_t first : {0, 1, 31, 32}) {
    Buffer<float> wide(n), copy(first + n + 64);
    Buffer<TypeParam> narrow(first + n + 64);
    for (std::int64_t i = 0; i < n; ++i) wide[i] = float(mix(5, 1, i) % 200001) / 1e5f - 1.0f;
    const TypeParam before = narrow[0];
    convert(this->ctx, n, this->stored(copy).at(first), this->stored(wide));
    convert(this->ctx, n, this->stored(narrow).at(first), this->stored(wide));
    ASSERT_EQ(std::memcmp(copy.data() + first, wide.data(), n * sizeof(float)), 0);
    for (std::int64_t i = 0; i < n; ++i) {
      TypeParam rounded{};
      round_to(rounded, wide[i]);
      ASSERT_EQ(narrow[first + i].bits, rounded.bits) << first << " " << i;
    }
    for (std::int64_t i = 0; i < first; ++i) ASSERT_EQ(narrow[i].bits, before.bits);
    for (std::int64_t i = first + n; i < narrow.size(); ++i) ASSERT_EQ(narrow[i].bits, before.bits);
  }
}

TYPED_TEST(Sixteen, only_what_is_not_finite_raises_the_flag) {
  const auto x = this->template all_values<TypeParam>();
  Buffer<std::uint8_t> flag(1);
  for (std::int64_t i = 0; i < x.size(); i += 37) {
    const ConstStored one{this->stored(x).dtype, x.data() + i};
    flag_not_finite(this->ctx, 1, one, flag.data(), true);
    ASSERT_EQ(flag[0] != 0, !std::isfinite(widen(x[i]))) << i;
  }
  flag_not_finite(this->ctx, x.size(), this->stored(x), flag.data(), true);
  EXPECT_EQ(flag[0], 1);
  flag_not_finite(this->ctx, 1, this->stored(x), flag.data(), false);
  EXPECT_EQ(flag[0], 1) << "a later piece must not lower the flag";
}

TYPED_TEST(Sixteen, squares_are_those_of_the_values) {
  Buffer<TypeParam> x(3000);
  Buffer<float> wide(x.size());
  for (std::int64_t i = 0; i < x.size(); ++i)
    round_to(x[i], static_cast<float>(mix(1, 1, i) % 1000) * 0.01f - 5);
  convert(this->ctx, x.size(), this->stored(wide), this->stored(x));
  Buffer<std::int64_t> a(exact_sum_limbs), b(exact_sum_limbs);
  sum_squares_exact(this->ctx, x.size(), this->stored(x), a.data(), true);
  sum_squares_exact(this->ctx, x.size(), this->stored(wide), b.data(), true);
  EXPECT_EQ(std::memcmp(a.data(), b.data(), sizeof(std::int64_t) * exact_sum_limbs), 0);
  Buffer<double> native(2);
  sum_squares(this->ctx, x.size(), this->stored(x), native.data(), true);
  sum_squares(this->ctx, x.size(), this->stored(wide), native.data() + 1, true);
  EXPECT_EQ(native[0], native[1]);
}

TYPED_TEST(Sixteen, first_values_are_the_fp32_ones_rounded) {
  const std::int64_t n = 9001;
  for (const Init init : {Init::uniform, Init::zeros, Init::ones}) {
    Buffer<float> wide(n);
    Buffer<TypeParam> x(n), rounded(n);
    init_param(this->ctx, this->stored(wide), n, 5, 2, init, 0.02, 1);
    init_param(this->ctx, this->stored(x), n, 5, 2, init, 0.02, 1);
    convert(this->ctx, n, this->stored(rounded), this->stored(wide));
    EXPECT_EQ(std::memcmp(x.data(), rounded.data(), 2 * static_cast<std::size_t>(n)), 0);
  }
}

TYPED_TEST(Sixteen, a_hash_is_that_of_the_values_as_fp32) {
  const auto x = this->template all_values<TypeParam>();
  Buffer<float> wide(x.size());
  convert(this->ctx, x.size(), this->stored(wide), this->stored(x));
  const std::uint64_t whole = state_hash(this->ctx, this->stored(x), x.size(), 77);
  EXPECT_EQ(state_hash(this->ctx, this->stored(wide), x.size(), 77), whole);
  x[4242].bits ^= 1;
  EXPECT_NE(state_hash(this->ctx, this->stored(x), x.size(), 77), whole);
}

TEST_F(Storage, a_norm_travels_as_fp32_and_comes_back) {
  Buffer<double> sum(1);
  Buffer<float> wire(1);
  sum[0] = 2.0 / 3.0;
  convert(ctx, 1, stored(wire), stored(sum));
  EXPECT_EQ(wire[0], static_cast<float>(2.0 / 3.0));
  convert(ctx, 1, stored(sum), stored(wire));
  EXPECT_EQ(sum[0], static_cast<double>(static_cast<float>(2.0 / 3.0)));
  divide(ctx, 1, stored(sum), 2);
  EXPECT_EQ(sum[0], static_cast<double>(static_cast<float>(2.0 / 3.0)) / 2);
}

// Two tensors of 5 and 2 elements on 3 ranks: shards of 2 and 1, rows of 3.
TEST_F(Storage, interleave_pads_and_rearrange_is_the_way_back) {
  Buffer<float> flat(9), a(5), b(2);
  for (int i = 0; i < 5; ++i) a[i] = static_cast<float>(i + 1);
  for (int i = 0; i < 2; ++i) b[i] = static_cast<float>(i + 10);
  interleave(ctx, 5, 3, 3, flat.data(), a.data());
  interleave(ctx, 2, 3, 3, flat.data() + 2, b.data());
  const float want[] = {1, 2, 10, 3, 4, 11, 5, 0, 0};
  for (int i = 0; i < 9; ++i) EXPECT_EQ(flat[i], want[i]) << i;
  Buffer<float> whole(6);
  rearrange(ctx, 6, 3, 3, whole.data(), flat.data());
  for (int i = 0; i < 5; ++i) EXPECT_EQ(whole[i], a[i]) << i;
}

TEST_F(Storage, the_clip_takes_the_loss_scale_out) {
  Buffer<double> sum(1), other(1), clip(2);
  sum[0] = 9 * 64, other[0] = 16 * 64;  // gradients of norm 5, scaled by 8
  add_sum(ctx, sum.data(), other.data());
  clip_from_sum(ctx, sum.data(), {0, 8}, clip.data());
  EXPECT_EQ(clip[0], 5);
  EXPECT_EQ(clip[1], 1.0 / 8);
  clip_from_sum(ctx, sum.data(), {1, 8}, clip.data());
  EXPECT_EQ(clip[1], 1 / (5 + 1e-6) / 8);
  clip_without_norm(ctx, {1, 8}, clip.data());
  EXPECT_EQ(clip[1], 1.0 / 8);
}

// Shards of several pieces, the last of them short, both for sizes that stay in a cache and for
// larger ones.
TEST_F(Storage, long_shards_are_interleaved_whole) {
  for (const std::int64_t shard : {17000, 170000}) {
    constexpr int rows = 3;
    const std::int64_t elems = rows * shard, distance = shard + 3, shorter = shard - 4000;
    Buffer<float> x(elems), flat(rows * distance), back(rows * shard);
    for (std::int64_t i = 0; i < elems; ++i) x[i] = static_cast<float>(i);
    for (std::int64_t i = 0; i < flat.size(); ++i) flat[i] = -1;
    interleave(ctx, rows * shorter, rows, distance, flat.data(), x.data());
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < distance; ++j)
        ASSERT_EQ(flat[r * distance + j], j >= shorter ? -1.0f : x[r * shorter + j])
            << r << " " << j;
    interleave(ctx, elems - 1, rows, distance, flat.data(), x.data());
    EXPECT_EQ(flat[2 * distance + shard - 2], x[elems - 2]);
    EXPECT_EQ(flat[2 * distance + shard - 1], 0.0f);
    interleave(ctx, elems, rows, distance, flat.data(), x.data());
    rearrange(ctx, elems, rows, distance, back.data(), flat.data());
    for (std::int64_t i = 0; i < elems; ++i) ASSERT_EQ(back[i], x[i]) << i;
    interleave(ctx, elems, rows, distance, flat.data(), x.data(), 3);
    for (std::int64_t i = 0; i < elems; ++i)
      ASSERT_EQ(flat[i / shard * distance + i % shard], x[i] / 3) << i;
  }
}

TEST_F(Storage, exact_sums_of_groups_add_up_to_that_of_all) {
  const std::int64_t n = 30000, cut = 12345;
  Buffer<float> x(n);
  for (std::int64_t i = 0; i < n; ++i)
    x[i] = std::ldexp(1.0f + static_cast<float>(i % 7), static_cast<int>(i % 200) - 140);
  Buffer<std::int64_t> all(exact_sum_limbs), one(exact_sum_limbs), two(exact_sum_limbs);
  sum_squares_exact(ctx, n, x.data(), all.data(), true);
  sum_squares_exact(ctx, cut, x.data(), one.data(), true);
  sum_squares_exact(ctx, n - cut, x.data() + cut, two.data(), true);
  add_limbs(ctx, one.data(), two.data());
  Buffer<double> clip_all(2), clip_groups(2);
  clip_from_limbs(ctx, all.data(), {1, 1024}, clip_all.data());
  clip_from_limbs(ctx, one.data(), {1, 1024}, clip_groups.data());
  EXPECT_GT(clip_all[0], 0);
  EXPECT_EQ(std::memcmp(clip_all.data(), clip_groups.data(), 2 * sizeof(double)), 0);
}

TEST_F(Storage, only_fp32_is_converted_to_and_from_fp64) {
  Buffer<double> x(1), y(1);
  x[0] = 1.0 / 3;
  convert(ctx, 1, stored(y), stored(x));
  EXPECT_EQ(y[0], x[0]);
  Buffer<Bf16> half(1);
  EXPECT_THROW(convert(ctx, 1, stored(half), stored(x)), PlanError);
  EXPECT_THROW(accumulate(ctx, 1, stored(x), stored(half)), PlanError);
}

}  // namespace
}  // namespace shardmark::test::storage_test
