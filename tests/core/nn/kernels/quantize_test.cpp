// SPDX-License-Identifier: Apache-2.0
// Rule: block quantization follows DeepSpeed's formula, and a restored element differs from the
// original by at most half a step; by a whole step only if it is clamped.
#include <gtest/gtest.h>

#include <core/nn/kernels/quantize.hpp>
#include <tests/core/nn/kernels/quantized.hpp>

namespace shardmark::test::quantize_test {
namespace {

struct Quantize : KernelTest {};

float value(std::int64_t i, float scale) {
  return uniform_value(7, i, scale);
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
    for (std::int64_t g = 0; g < groups; ++g)
      expect_group_restored(x.data() + g * size, back.data() + g * size, size, steps[g], 128,
                            [&](std::int64_t i) { return static_cast<float>(q[g * size + i]); });
  }
}

TEST_F(Quantize, keeps_zeros_and_what_is_not_finite_shows) {
  Buffer<Fp16> x(24), back(24);
  Buffer<std::int8_t> q(24);
  Buffer<float> steps(3);
  fill_with_extremes(x);
  quantize(ctx, 24, 3, q.data(), steps.data(), x.data());
  dequantize(ctx, 24, 3, back.data(), q.data(), steps.data());
  EXPECT_EQ(steps[0], 1);
  expect_extremes_restored(back);
  EXPECT_EQ(q[16], 127);
}

}  // namespace
}  // namespace shardmark::test::quantize_test
