// SPDX-License-Identifier: Apache-2.0
// Kernels on bf16 and fp16. Rule: a result is that of the fp32 kernel on the same values, rounded
// once, bit for bit; other tests compare the fp32 kernels with double. Attention, whose products
// can be computed in two ways, is compared with double, within bounds that count its roundings.
#include <gtest/gtest.h>

#include <core/nn/layers/activation.hpp>
#include <core/nn/layers/attention.hpp>
#include <core/nn/layers/cross_entropy.hpp>
#include <core/nn/layers/elementwise.hpp>
#include <core/nn/layers/embedding.hpp>
#include <core/nn/layers/layer_norm.hpp>
#include <core/nn/layers/rms_norm.hpp>
#include <core/nn/layers/rotary.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::sixteen_bit_model_test {
namespace {

// A tensor in T and the same values in fp32.
template<class T>
struct Both {
  Both(std::int64_t elems, std::uint64_t stream, float scale = 1) : t(elems), f(elems) {
    for (std::int64_t i = 0; i < elems; ++i) {
      round_to(t[i], scale * (static_cast<float>(mix(2, stream, i) % 2001) / 1000.0f - 1.0f));
      f[i] = widen(t[i]);
    }
  }
  Stored in_t() const { return {storage_of<T>, t.data()}; }
  Stored in_f() const { return f.data(); }
  Stored in(bool sixteen) const { return sixteen ? in_t() : in_f(); }
  std::int64_t size() const { return t.size(); }

  Buffer<T> t;
  Buffer<float> f;
};

template<class T>
void expect_rounded(const Both<T>& x, const char* what) {
  for (std::int64_t i = 0; i < x.size(); ++i) {
    T once{};
    round_to(once, x.f[i]);
    ASSERT_EQ(x.t[i].bits, once.bits) << what << " " << i << ": fp32 has " << x.f[i];
  }
}

template<class T>
struct SixteenBits : ::testing::Test {
  MatMul matmul{std::int64_t{16} << 20};
  Context ctx{Space(), matmul};
};
using SixteenTypes = ::testing::Types<Bf16, Fp16>;
TYPED_TEST_SUITE(SixteenBits, SixteenTypes);

TYPED_TEST(SixteenBits, layer_norm_is_rounded_once) {
  using B = Both<TypeParam>;
  for (const std::int64_t h : {1, 65, 777}) {
    const std::int64_t rows = 5;
    const B x(rows * h, 1, 3), weight(h, 2), bias(h, 3), y(rows * h, 4), dy(rows * h, 5);
    const B dx(rows * h, 6), alone(rows * h, 6), dweight(h, 7), dbias(h, 8);
    Buffer<float> mean(rows), rstd(rows), mean_f(rows), rstd_f(rows);
    layer_norm_forward(this->ctx, rows, h, x.in_t(), weight.in_t(), bias.in_t(), y.in_t(),
                       mean.data(), rstd.data());
    layer_norm_forward(this->ctx, rows, h, x.in_f(), weight.in_f(), bias.in_f(), y.in_f(),
                       mean_f.data(), rstd_f.data());
    expect_rounded(y, "y");
    for (std::int64_t r = 0; r < rows; ++r) {
      EXPECT_EQ(mean[r], mean_f[r]);
      EXPECT_EQ(rstd[r], rstd_f[r]);
    }
    for (const bool sixteen : {true, false}) {
      layer_norm_input_gradient(this->ctx, rows, h, x.in(sixteen), mean.data(), rstd.data(),
                                weight.in(sixteen), dy.in(sixteen), dx.in(sixteen), true);
      layer_norm_input_gradient(this->ctx, rows, h, x.in(sixteen), mean.data(), rstd.data(),
                                weight.in(sixteen), dy.in_f(), alone.in(sixteen), false);
      layer_norm_backward_params(this->ctx, rows, h, x.in(sixteen), mean.data(), rstd.data(),
                                 dy.in(sixteen), dweight.in(sixteen), dbias.in(sixteen), true);
    }
    expect_rounded(dx, "dx");
    expect_rounded(alone, "dx from an fp32 dy");
    expect_rounded(dweight, "dweight");
    expect_rounded(dbias, "dbias");
  }
}

TYPED_TEST(SixteenBits, rms_norm_is_rounded_once) {
  using B = Both<TypeParam>;
  const std::int64_t rows = 5, h = 131;
  const B x(rows * h, 1, 3), weight(h, 2), y(rows * h, 3), dy(rows * h, 4), dx(rows * h, 5);
  const B alone(rows * h, 6), dweight(h, 7);
  Buffer<float> rstd(rows);
  for (const bool sixteen : {true, false}) {
    rms_norm_forward(this->ctx, rows, h, x.in(sixteen), weight.in(sixteen), y.in(sixteen),
                     rstd.data());
    rms_norm_input_gradient(this->ctx, rows, h, x.in(sixteen), rstd.data(), weight.in(sixteen),
                            dy.in(sixteen), dx.in(sixteen), true);
    rms_norm_input_gradient(this->ctx, rows, h, x.in(sixteen), rstd.data(), weight.in(sixteen),
                            dy.in_f(), alone.in(sixteen), false);
    rms_norm_backward_params(this->ctx, rows, h, x.in(sixteen), rstd.data(), dy.in(sixteen),
                             dweight.in(sixteen), true);
  }
  expect_rounded(y, "y");
  expect_rounded(dx, "dx");
  expect_rounded(alone, "dx from an fp32 dy");
  expect_rounded(dweight, "dweight");
}

TYPED_TEST(SixteenBits, rotations_are_rounded_once) {
  using B = Both<TypeParam>;
  TransformerDims dims;
  dims.heads = 4, dims.kv_heads = 2, dims.hidden = 4 * 10, dims.sequence = 50, dims.micro_batch = 2;
  const B q(dims.rows() * dims.hidden, 1), k(dims.rows() * dims.kv_dim(), 2);
  const B dq(q.size(), 3), dk(k.size(), 4);
  for (const bool sixteen : {true, false}) {
    const Rotation rotation = rotation_of(dims, 0);
    const auto turn = [&](const B& queries, const B& keys, bool back) {
      rotate(this->ctx, dims, {queries.in(sixteen), 40, 4, 10}, {keys.in(sixteen), 20, 2, 10},
             rotation, back);
    };
    turn(q, k, false);
    turn(dq, dk, true);
  }
  expect_rounded(q, "q");
  expect_rounded(k, "k");
  expect_rounded(dq, "dq");
  expect_rounded(dk, "dk");
}

TYPED_TEST(SixteenBits, elementwise_kernels_are_rounded_once) {
  using B = Both<TypeParam>;
  const std::int64_t rows = 71, h = 77, n = rows * h;
  const B x(n, 1, 4), bias(h, 2), out(n, 3), y(n, 4), act(n, 5), d(n, 6), dbias(h, 7);
  const B gate(n, 8, 4), up(n, 9), glu(n, 10), glu_again(n, 11), dgate(n, 12), dup(n, 13),
      sum(n, 14);
  for (const bool sixteen : {true, false}) {
    bias_residual(this->ctx, rows, h, x.in(sixteen), bias.in(sixteen), out.in(sixteen));
    activation_forward(this->ctx, Activation::gelu_tanh, n, x.in(sixteen), y.in(sixteen));
    activation_backward(this->ctx, Activation::gelu_tanh, n, x.in(sixteen), act.in(sixteen),
                        d.in(sixteen));
    bias_backward(this->ctx, rows, h, x.in(sixteen), dbias.in(sixteen), true);
    residual(this->ctx, n, x.in(sixteen), sum.in(sixteen));
    const GatedRows size{rows, h, h};
    gated_forward(this->ctx, Activation::silu, size, gate.in(sixteen), up.in(sixteen),
                  glu.in(sixteen));
    gated_backward(this->ctx, Activation::silu, size, gate.in(sixteen), up.in(sixteen),
                   dgate.in(sixteen), glu_again.in(sixteen), dgate.in(sixteen), dup.in(sixteen));
  }
  expect_rounded(out, "bias_residual");
  expect_rounded(y, "gelu");
  expect_rounded(act, "gelu again");
  expect_rounded(d, "gelu's gradient");
  expect_rounded(dbias, "bias gradient");
  expect_rounded(sum, "residual");
  expect_rounded(glu, "swiglu");
  expect_rounded(glu_again, "swiglu again");
  expect_rounded(dgate, "gradient of the gate");
  expect_rounded(dup, "gradient of up");
}

TYPED_TEST(SixteenBits, embeddings_and_the_loss_are_rounded_once) {
  using B = Both<TypeParam>;
  TransformerDims dims;
  dims.vocab = 1500, dims.sequence = 150, dims.micro_batch = 2, dims.hidden = 9;
  dims.dtype = storage_of<TypeParam>;
  const std::int64_t rows = dims.rows(), h = dims.hidden;
  Buffer<std::int32_t> tokens(2 * 151);
  for (std::int64_t i = 0; i < tokens.size();
       ++i)  // each token occurs about seventy times, which makes long sums
    tokens[i] = static_cast<std::int32_t>(mix(1, 2, i) % 4);
  const B wte(dims.vocab * h, 1), wpe(dims.sequence * h, 2), x(rows * h, 3), dx(rows * h, 4);
  const B dwte(dims.vocab * h, 5), dwpe(dims.sequence * h, 6), logits(rows * dims.vocab, 7, 20);
  Buffer<float> losses(rows), losses_f(rows);
  for (const bool sixteen : {true, false}) {
    token_embedding_forward(this->ctx, dims, tokens.data(), wte.in(sixteen), x.in(sixteen));
    position_embedding_forward(this->ctx, dims, wpe.in(sixteen), x.in(sixteen));
    token_embedding_backward(this->ctx, dims, tokens.data(), dx.in(sixteen), dwte.in(sixteen),
                             true);
    position_embedding_backward(this->ctx, dims, dx.in(sixteen), dwpe.in(sixteen), true);
    cross_entropy(this->ctx, dims, tokens.data(), logits.in(sixteen),
                  sixteen ? losses.data() : losses_f.data(), 0.25f);
  }
  expect_rounded(x, "x");
  expect_rounded(dwte, "dwte");
  expect_rounded(dwpe, "dwpe");
  expect_rounded(logits, "gradient of the logits");
  for (std::int64_t r = 0; r < rows; ++r) EXPECT_EQ(losses[r], losses_f[r]);
}

TYPED_TEST(SixteenBits, a_kernel_refuses_tensors_of_two_types) {
  const Both<TypeParam> x(8, 1), y(8, 2);
  EXPECT_THROW(activation_forward(this->ctx, Activation::gelu_tanh, 8, x.in_t(), y.in_f()),
               PlanError);
}

}  // namespace
}  // namespace shardmark::test::sixteen_bit_model_test
