// SPDX-License-Identifier: Apache-2.0
// Initial values and state hashes depend on the global element index alone.
#include <cstring>

#include <gtest/gtest.h>

#include <core/nn/optimizer/init.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::init_test {
namespace {

struct InitTest : KernelTest {
  const std::int64_t n = 20011;
};

TEST_F(InitTest, uniform_values_are_the_rule_in_double_rounded_once) {
  Buffer<float> x(n);
  init_param(ctx, x.data(), n, 0, 7, Init::uniform, 0.02, 3);
  double sum = 0, squares = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const double u = std::ldexp(static_cast<double>(mix(3, 7, i) >> 11), -53);
    ASSERT_EQ(x[i], static_cast<float>((u - 0.5) * 2 * std::sqrt(3.0) * 0.02)) << i;
    sum += x[i], squares += double(x[i]) * x[i];
  }
  EXPECT_NEAR(sum / double(n), 0, 5e-4);
  EXPECT_NEAR(std::sqrt(squares / double(n)), 0.02, 2e-4);
}

TEST_F(InitTest, pieces_of_a_tensor_equal_the_whole) {
  for (const Init init : {Init::uniform, Init::zeros, Init::ones}) {
    Buffer<float> whole(n), pieces(n);
    init_param(ctx, whole.data(), n, 0, 2, init, 0.02, 1);
    for (std::int64_t at = 0, size = 1; at < n; at += size, size = 2 * size + 3)
      init_param(ctx, pieces.data() + at, std::min(size, n - at), at, 2, init, 0.02, 1);
    EXPECT_EQ(std::memcmp(whole.data(), pieces.data(), n * sizeof(float)), 0);
    if (init == Init::uniform) continue;
    EXPECT_EQ(whole[n - 1], init == Init::ones ? 1.0f : 0.0f);
  }
}

TEST_F(InitTest, hashes_of_a_partition_add_up_to_that_of_the_whole) {
  Buffer<float> x(n);
  init_param(ctx, x.data(), n, 0, 7, Init::uniform, 0.02, 3);
  const std::uint64_t whole = state_hash(ctx, x.data(), n, 1000);
  for (const std::int64_t cut : {std::int64_t{1}, std::int64_t{8192}, n / 3})
    EXPECT_EQ(
        state_hash(ctx, x.data(), cut, 1000) + state_hash(ctx, x.data() + cut, n - cut, 1000 + cut),
        whole);
}

TEST_F(InitTest, a_hash_sees_every_bit_and_every_place) {
  Buffer<float> x(n);
  init_param(ctx, x.data(), n, 0, 7, Init::uniform, 0.02, 3);
  const std::uint64_t whole = state_hash(ctx, x.data(), n, 0);
  EXPECT_NE(state_hash(ctx, x.data(), n, 1), whole);
  std::swap(x[5], x[6]);
  EXPECT_NE(state_hash(ctx, x.data(), n, 0), whole);
  std::swap(x[5], x[6]);
  std::uint32_t bits;
  for (int b = 0; b < 32; ++b) {
    std::memcpy(&bits, &x[77], sizeof bits);
    bits ^= 1u << b;
    std::memcpy(&x[77], &bits, sizeof bits);
    EXPECT_NE(state_hash(ctx, x.data(), n, 0), whole) << "bit " << b;
    bits ^= 1u << b;
    std::memcpy(&x[77], &bits, sizeof bits);
  }
}

TEST_F(InitTest, clear_and_accumulate) {
  Buffer<float> x(n), y(n);
  clear(ctx, n * 4, x.data());
  init_param(ctx, y.data(), n, 0, 1, Init::uniform, 1.0, 1);
  accumulate(ctx, n, x.data(), y.data());
  EXPECT_EQ(std::memcmp(x.data(), y.data(), n * sizeof(float)), 0);
  accumulate(ctx, n, x.data(), y.data());
  EXPECT_EQ(x[n - 1], 2 * y[n - 1]);
}

}  // namespace
}  // namespace shardmark::test::init_test
