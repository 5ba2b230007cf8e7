// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cmath>

#include <gtest/gtest.h>

#include <core/nn/optimizer/sketch.hpp>
#include <core/nn/products/matmul.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::sketch_test {
namespace {

using Sums = std::array<double, sketch_buckets>;

Sums sketch_of(const Buffer<float>& x, std::int64_t first_elem) {
  MatMul matmul(0);
  const Context ctx{Space(), matmul};
  Sums sums{};
  sketch_state(ctx, x.data(), x.size(), first_elem, sums);
  return sums;
}

Buffer<float> wave(std::int64_t elems) {
  Buffer<float> x(elems);
  for (std::int64_t i = 0; i < elems; ++i)
    x[i] = static_cast<float>(std::sin(0.1 * static_cast<double>(i)));
  return x;
}

// Sizes around those of a team's work, and beyond the most teams.
TEST(SketchState, is_the_sum_by_bucket_wherever_it_is_made) {
  for (const std::int64_t elems : {1, 511, 512, 513, 4097, 100001}) {
    const Buffer<float> x = wave(elems);
    constexpr std::int64_t first_elem = 13;
    Sums expected{};
    sketch_on_host(x.data(), elems, first_elem, expected);
    const Sums sums = sketch_of(x, first_elem);
    for (std::size_t b = 0; b < sketch_buckets; ++b)
      EXPECT_NEAR(sums[b], expected[b], 1e-9) << "bucket " << b << " of " << elems;
  }
}

TEST(SketchState, gives_the_same_bits_again) {
  const Buffer<float> x = wave(70001);
  EXPECT_EQ(sketch_of(x, 5), sketch_of(x, 5));
}

TEST(SketchState, tells_two_elements_from_each_other) {
  const Buffer<float> x = wave(2000);
  const Sums before = sketch_of(x, 0);
  std::swap(x[100], x[1900]);
  EXPECT_NE(sketch_of(x, 0), before);
}

}  // namespace
}  // namespace shardmark::test::sketch_test
