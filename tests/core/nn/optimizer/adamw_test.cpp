// SPDX-License-Identifier: Apache-2.0
// AdamW and Adam against their formulas in double. A buffer gets the same bits whether it is
// updated as a whole or in shards.
#include <cstring>

#include <gtest/gtest.h>

#include <core/nn/optimizer/updates.hpp>
#include <core/numeric/half.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::adamw_test {
namespace {

struct State {
  Buffer<float> p, g, m, v;
  explicit State(std::int64_t n) : p(n), g(n), m(n), v(n) {
    for (std::int64_t i = 0; i < n; ++i) {
      auto draw = [&](std::uint64_t s) { return float(mix(1, s, i) % 2001) / 1000.0f - 1.0f; };
      p[i] = draw(1), g[i] = draw(2), m[i] = draw(3), v[i] = std::abs(draw(4));
    }
  }
};

TEST(adamw, follows_the_formula) {
  const std::int64_t n = 10007;
  State s(n);
  const State before(n);
  MatMul matmul(0);
  const Context ctx{Space(), matmul};
  const AdamWStep step{0.01, 0.9, 0.95, 1e-6, 0.1, 3};
  const Number clip(0.3);
  adamw_update(ctx, n, s.p.data(), s.g.data(), s.m.data(), s.v.data(), step, clip.data());
  for (std::int64_t i = 0; i < n; ++i) {
    const double g = before.g[i] * 0.3;
    const double m = 0.9 * before.m[i] + 0.1 * g, v = 0.95 * before.v[i] + 0.05 * g * g;
    const double m_hat = m / (1 - std::pow(0.9, 3)), v_hat = v / (1 - std::pow(0.95, 3));
    const double p =
        before.p[i] - 0.01 * 0.1 * before.p[i] - 0.01 * m_hat / (std::sqrt(v_hat) + 1e-6);
    ASSERT_NEAR(s.m[i], m, 2e-7);
    ASSERT_NEAR(s.v[i], v, 2e-7);
    ASSERT_NEAR(s.p[i], p, 3e-7 + 1e-6 * std::abs(p - before.p[i]));
  }
}

TEST(adamw, is_adam_where_decay_is_not_decoupled) {
  const std::int64_t n = 10007;
  MatMul matmul(0);
  const Context ctx{Space(), matmul};
  for (const bool correct : {true, false}) {
    State s(n);
    const State before(n);
    AdamWStep step{0.01, 0.9, 0.95, 1e-6, 0.1, 3};
    step.decoupled = false;
    step.bias_correction = correct;
    const Number clip(0.3);
    adamw_update(ctx, n, s.p.data(), s.g.data(), s.m.data(), s.v.data(), step, clip.data());
    for (std::int64_t i = 0; i < n; ++i) {
      const double g = before.g[i] * 0.3 + 0.1 * before.p[i];
      const double m = 0.9 * before.m[i] + 0.1 * g, v = 0.95 * before.v[i] + 0.05 * g * g;
      const double m_hat = correct ? m / (1 - std::pow(0.9, 3)) : m;
      const double v_hat = correct ? v / (1 - std::pow(0.95, 3)) : v;
      const double p = before.p[i] - 0.01 * m_hat / (std::sqrt(v_hat) + 1e-6);
      ASSERT_NEAR(s.m[i], m, 2e-7);
      ASSERT_NEAR(s.v[i], v, 2e-7);
      ASSERT_NEAR(s.p[i], p, 3e-7 + 1e-6 * std::abs(p - before.p[i]));
    }
  }
}

// Who has the parameters before a step and the moments after it makes the same parameters.
TEST(adamw, is_made_of_the_moments_after_it_bit_for_bit) {
  const std::int64_t n = 10007;
  MatMul matmul(0);
  const Context ctx{Space(), matmul};
  for (const bool decoupled : {true, false}) {
    State s(n);
    const State again(n);
    AdamWStep step{0.01, 0.9, 0.95, 1e-6, 0.1, 3};
    step.decoupled = decoupled;
    const Number clip(0.3);
    s.m[0] = s.g[0] = -0.0F, s.v[0] = 0.0F;
    adamw_update(ctx, n, s.p.data(), s.g.data(), s.m.data(), s.v.data(), step, clip.data());
    for (std::int64_t i = 0; i < n; ++i) again.m[i] = s.m[i], again.v[i] = s.v[i];
    adamw_apply(ctx, n, again.p.data(), again.m.data(), again.v.data(), step);
    const std::size_t bytes = n * sizeof(float);
    EXPECT_EQ(std::memcmp(again.p.data(), s.p.data(), bytes), 0);
    EXPECT_EQ(std::memcmp(again.m.data(), s.m.data(), bytes), 0) << "the sign of a zero counts";
    EXPECT_EQ(std::memcmp(again.v.data(), s.v.data(), bytes), 0);
  }
}

// With decoupled decay the parameter does not influence the moments, not even the sign of a zero.
TEST(adamw, moments_do_not_see_the_parameter) {
  Buffer<float> p(1), g(1), m(1), v(1);
  p[0] = 1.0f, g[0] = -0.0f, m[0] = -0.0f, v[0] = 0.0f;
  MatMul matmul(0);
  const Context ctx{Space(), matmul};
  const Number clip(1);
  adamw_update(ctx, 1, p.data(), g.data(), m.data(), v.data(), {}, clip.data());
  EXPECT_TRUE(std::signbit(m[0]));
}

TEST(adamw, gives_the_same_bits_in_shards) {
  const std::int64_t n = 30001;
  State whole(n), sharded(n);
  MatMul matmul(0);
  const Context ctx{Space(), matmul};
  const Number clip(0.7);
  for (std::int64_t t = 1; t <= 3; ++t) {
    AdamWStep step;
    step.step = t;
    adamw_update(ctx, n, whole.p.data(), whole.g.data(), whole.m.data(), whole.v.data(), step,
                 clip.data());
    for (std::int64_t at = 0, size = 1; at < n; at += size, size = size * 3 + 1) {
      const std::int64_t count = std::min(size, n - at);
      adamw_update(ctx, count, sharded.p.data() + at, sharded.g.data() + at, sharded.m.data() + at,
                   sharded.v.data() + at, step, clip.data());
    }
  }
  EXPECT_EQ(std::memcmp(whole.p.data(), sharded.p.data(), n * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(whole.m.data(), sharded.m.data(), n * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(whole.v.data(), sharded.v.data(), n * sizeof(float)), 0);
}

// Gradients that are widened and parameters that are rounded during the update, for small buffers
// and for large ones, which bypass the caches.
template<class T>
void expect_one_pass_as_three(Dtype dtype, std::int64_t n) {
  State one(n), three(n);
  Buffer<T> grad(n), fused(n), apart(n);
  for (std::int64_t i = 0; i < n; ++i) round_to(grad[i], one.g[i]);
  MatMul matmul(0);
  const Context ctx{Space(), matmul};
  const Number clip(0.7);
  adamw_update(ctx, n, one.p.data(), {dtype, grad.data()}, one.m.data(), one.v.data(), {},
               clip.data(), Stored{dtype, fused.data()});
  convert(ctx, n, three.g.data(), {dtype, grad.data()});
  adamw_update(ctx, n, three.p.data(), three.g.data(), three.m.data(), three.v.data(), {},
               clip.data());
  convert(ctx, n, {dtype, apart.data()}, three.p.data());
  EXPECT_EQ(std::memcmp(one.p.data(), three.p.data(), n * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(one.m.data(), three.m.data(), n * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(one.v.data(), three.v.data(), n * sizeof(float)), 0);
  EXPECT_EQ(std::memcmp(fused.data(), apart.data(), n * sizeof(T)), 0);
}

TEST(adamw, widens_and_rounds_on_the_way_to_the_same_bits) {
  for (const std::int64_t n : {30'001, 600'001}) {
    expect_one_pass_as_three<Bf16>(Dtype::bf16, n);
    expect_one_pass_as_three<Fp16>(Dtype::fp16, n);
    expect_one_pass_as_three<float>(Dtype::fp32, n);
  }
}

}  // namespace
}  // namespace shardmark::test::adamw_test
