// SPDX-License-Identifier: Apache-2.0
// Each primitive alone against a plain double loop, at odd sizes. (gradient_test.cpp compares the
// gradients of attention and embeddings with difference quotients.)
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

namespace shardmark::test::primitives_test {
namespace {

struct Primitives : ::testing::Test {
  MatMul matmul{std::int64_t{16} << 20};
  Context ctx{Space(), matmul};

  static Buffer<float> filled(std::int64_t elems, std::uint64_t stream, float scale = 1) {
    Buffer<float> b(elems);
    for (std::int64_t i = 0; i < elems; ++i)
      b[i] = scale * (static_cast<float>(mix(2, stream, i) % 2001) / 1000.0f - 1.0f);
    return b;
  }
};

TEST_F(Primitives, layer_norm_of_any_row_length) {
  for (const std::int64_t h : {1, 2, 63, 64, 65, 129, 777}) {
    const std::int64_t rows = 3;
    const auto x = filled(rows * h, 1), weight = filled(h, 2), bias = filled(h, 3);
    Buffer<float> y(rows * h), mean(rows), rstd(rows);
    layer_norm_forward(ctx, rows, h, x.data(), weight.data(), bias.data(), y.data(), mean.data(),
                       rstd.data());
    for (std::int64_t r = 0; r < rows; ++r) {
      double m = 0, v = 0;
      for (std::int64_t j = 0; j < h; ++j) m += x[r * h + j] / double(h);
      for (std::int64_t j = 0; j < h; ++j) v += std::pow(x[r * h + j] - m, 2) / double(h);
      EXPECT_NEAR(mean[r], m, 1e-6);
      EXPECT_NEAR(rstd[r] * std::sqrt(v + 1e-5), 1.0, 2e-6) << h;
      for (std::int64_t j = 0; j < h; ++j)
        ASSERT_NEAR(y[r * h + j], (x[r * h + j] - m) / std::sqrt(v + 1e-5) * weight[j] + bias[j],
                    5e-6)
            << "h " << h << " row " << r << " column " << j;
    }
  }
}

TEST_F(Primitives, bias_residual_is_the_stream_and_the_product_with_its_bias) {
  const std::int64_t rows = 5, h = 77;
  const auto x = filled(rows * h, 1), product = filled(rows * h, 4), bias = filled(h, 5);
  const auto out = filled(rows * h, 4);
  bias_residual(ctx, rows, h, x.data(), bias.data(), out.data());
  for (std::int64_t i = 0; i < rows * h; ++i) EXPECT_EQ(out[i], x[i] + (product[i] + bias[i % h]));
}

TEST_F(Primitives, layer_norm_backward_adds_to_dx) {
  const std::int64_t rows = 4, h = 100;
  const auto x = filled(rows * h, 1), weight = filled(h, 2), bias = filled(h, 3);
  const auto dy = filled(rows * h, 6), dx = filled(rows * h, 7), before = filled(rows * h, 7);
  Buffer<float> y(rows * h), mean(rows), rstd(rows), alone(rows * h);
  layer_norm_forward(ctx, rows, h, x.data(), weight.data(), bias.data(), y.data(), mean.data(),
                     rstd.data());
  layer_norm_input_gradient(ctx, rows, h, x.data(), mean.data(), rstd.data(), weight.data(),
                            dy.data(), dx.data(), true);
  layer_norm_input_gradient(ctx, rows, h, x.data(), mean.data(), rstd.data(), weight.data(),
                            dy.data(), alone.data(), false);
  for (std::int64_t i = 0; i < rows * h; ++i) EXPECT_EQ(dx[i], before[i] + alone[i]);
}

TEST_F(Primitives, rms_norm_of_any_row_length_and_its_gradient) {
  for (const std::int64_t h : {1, 2, 63, 64, 65, 129, 777}) {
    const std::int64_t rows = 3;
    const auto x = filled(rows * h, 1), weight = filled(h, 2), dy = filled(rows * h, 6);
    const auto added = filled(rows * h, 7), before = filled(rows * h, 7);
    Buffer<float> y(rows * h), rstd(rows), dx(rows * h), dweight(h);
    rms_norm_forward(ctx, rows, h, x.data(), weight.data(), y.data(), rstd.data());
    rms_norm_input_gradient(ctx, rows, h, x.data(), rstd.data(), weight.data(), dy.data(),
                            dx.data(), false);
    rms_norm_input_gradient(ctx, rows, h, x.data(), rstd.data(), weight.data(), dy.data(),
                            added.data(), true);
    rms_norm_backward_params(ctx, rows, h, x.data(), rstd.data(), dy.data(), dweight.data(), false);
    std::vector<double> dw(h, 0.0);
    for (std::int64_t r = 0; r < rows; ++r) {
      double squares = 0, gx = 0;
      for (std::int64_t j = 0; j < h; ++j) {
        squares += std::pow(x[r * h + j], 2) / double(h);
        gx += double(dy[r * h + j]) * weight[j] * x[r * h + j];
      }
      const double scale = 1 / std::sqrt(squares + 1e-5);
      EXPECT_NEAR(rstd[r] / scale, 1.0, 1e-6) << h;
      for (std::int64_t j = 0; j < h; ++j) {
        const std::int64_t i = r * h + j;
        ASSERT_NEAR(y[i], x[i] * scale * weight[j], 2e-6) << "h " << h << " element " << i;
        // The derivative of x_j scale(x) uses scale' = -scale^3 x / h.
        ASSERT_NEAR(dx[i], scale * dy[i] * weight[j] - std::pow(scale, 3) * x[i] * gx / double(h),
                    5e-6 * scale)
            << "h " << h << " element " << i;
        ASSERT_EQ(added[i], before[i] + dx[i]);
        dw[j] += double(dy[i]) * x[i] * scale;
      }
    }
    for (std::int64_t j = 0; j < h; ++j) ASSERT_NEAR(dweight[j], dw[j], 2e-6) << h;
  }
}

TEST_F(Primitives, rotary_turns_pairs_by_their_position_and_back) {
  TransformerDims dims;
  dims.heads = 3, dims.kv_heads = 1, dims.sequence = 5, dims.micro_batch = 2;
  for (const std::int64_t d : {2, 6, 64, 130, 260}) {
    dims.hidden = 3 * d;
    const auto q = filled(10 * 3 * d, 1), k = filled(10 * d, 2);
    const auto q0 = filled(10 * 3 * d, 1), k0 = filled(10 * d, 2);
    const Rotation rotation = rotation_of(dims, 0);
    // Asked for before each kernel, so that a GPU's host waits for it before it reads.
    const auto turn = [&](bool back) {
      rotate(ctx, dims, {q.data(), 3 * d, 3, d}, {k.data(), d, 1, d}, rotation, back);
    };
    turn(false);
    auto check = [&](const Buffer<float>& x, const Buffer<float>& before, std::int64_t heads) {
      for (std::int64_t i = 0; i < x.size(); ++i) {
        const std::int64_t row = i / (heads * d), j = i % d, half = d / 2;
        const double angle =
            double(row % dims.sequence) * std::pow(10000.0, -2.0 * double(j % half) / double(d));
        const std::int64_t partner = j < half ? i + half : i - half;
        const double other = j < half ? -double(before[partner]) : double(before[partner]);
        ASSERT_NEAR(x[i], before[i] * std::cos(angle) + other * std::sin(angle), 3e-7)
            << "d " << d << " element " << i;
      }
    };
    check(q, q0, 3);
    check(k, k0, 1);
    turn(true);
    for (std::int64_t i = 0; i < q.size(); ++i) ASSERT_NEAR(q[i], q0[i], 5e-7);
    for (std::int64_t i = 0; i < k.size(); ++i) ASSERT_NEAR(k[i], k0[i], 5e-7);
  }
}

TEST_F(Primitives, swiglu_and_its_gradient) {
  const std::int64_t n = 1000;
  const auto gate = filled(n, 1, 12), up = filled(n, 2), dy = filled(n, 3), dgate = filled(n, 3);
  Buffer<float> y(n), again(n), dup(n);
  const GatedRows size{10, 100, 100};
  gated_forward(ctx, Activation::silu, size, gate.data(), up.data(), y.data());
  gated_backward(ctx, Activation::silu, size, gate.data(), up.data(), dgate.data(), again.data(),
                 dgate.data(), dup.data());
  for (std::int64_t i = 0; i < n; ++i) {
    const double x = gate[i], s = 1 / (1 + std::exp(-x));
    EXPECT_NEAR(y[i], x * s * up[i], 2e-6);
    EXPECT_EQ(again[i], y[i]);
    EXPECT_NEAR(dup[i], dy[i] * x * s, 2e-6);
    EXPECT_NEAR(dgate[i], dy[i] * up[i] * (s + x * s * (1 - s)), 2e-6);
  }
}

TEST_F(Primitives, bias_gradients_are_column_sums) {
  for (const std::int64_t rows : {1, 31, 32, 33, 100}) {
    const std::int64_t columns = 515;
    const auto dy = filled(rows * columns, 1), before = filled(columns, 2),
               out = filled(columns, 2);
    Buffer<float> fresh(columns);
    bias_backward(ctx, rows, columns, dy.data(), fresh.data(), false);
    bias_backward(ctx, rows, columns, dy.data(), out.data(), true);
    for (std::int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      for (std::int64_t r = 0; r < rows; ++r) sum += dy[r * columns + j];
      ASSERT_NEAR(fresh[j], sum, 1e-5);
      ASSERT_EQ(out[j], before[j] + fresh[j]);
    }
  }
}

// Vocabularies that fill less than a piece, one piece, several pieces, and several pieces and a
// rest; targets in all pieces.
class CrossEntropy : public Primitives, public ::testing::WithParamInterface<std::int64_t> {};
INSTANTIATE_TEST_SUITE_P(Vocabularies, CrossEntropy,
                         ::testing::Values(1500, 8256, 2 * 8256, 2 * 8256 + 1105));

TEST_P(CrossEntropy, pieces_hold_each_logit_once_and_are_dense) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::bf16}) {
    TransformerDims dims;
    dims.vocab = GetParam(), dims.sequence = 3, dims.micro_batch = 2, dims.dtype = dtype;
    const HeadPieces pieces(dims);
    std::int64_t next = 0, first = 0;
    for (std::int64_t piece = 0; piece < pieces.count; first += pieces.columns_of(piece++)) {
      ASSERT_EQ(pieces.first(piece), first);
      ASSERT_EQ(pieces.piece_of(first), piece);
      for (std::int64_t r = 0; r < 6; ++r, next += pieces.columns_of(piece))
        ASSERT_EQ(pieces.row(piece, r), next) << piece << " " << r;
    }
    EXPECT_EQ(next, 6 * dims.vocab);
  }
}

// The first ranks have one column more, and each piece has room for as many.
TEST_F(Primitives, pieces_of_ranks_that_divide_the_head_begin_at_equal_distances) {
  TransformerDims dims;
  dims.vocab = 10, dims.sequence = 3, dims.micro_batch = 2, dims.head_part = {4, 0};
  const HeadPieces pieces(dims);
  EXPECT_EQ(pieces.count, 4);
  std::vector<std::int64_t> columns, places;
  for (std::int64_t piece = 0; piece < 4; ++piece) {
    columns.push_back(pieces.columns_of(piece));
    places.push_back(pieces.row(piece, 0));
  }
  EXPECT_EQ(columns, (std::vector<std::int64_t>{3, 3, 2, 2}));
  EXPECT_EQ(places, (std::vector<std::int64_t>{0, 18, 36, 54}));
  for (std::int64_t v = 0; v < 10; ++v) EXPECT_EQ(pieces.piece_of(v), v < 6 ? v / 3 : v / 2 - 1);
  EXPECT_EQ(6 * dims.gathered_vocab(), 72);
}

TEST_P(CrossEntropy, and_its_gradient) {
  TransformerDims dims;
  dims.vocab = GetParam(), dims.sequence = 3, dims.micro_batch = 2;
  const HeadPieces pieces(dims);
  const auto at = [&](std::int64_t r, std::int64_t v) {
    const std::int64_t piece = pieces.piece_of(v);
    return pieces.row(piece, r) + v - pieces.first(piece);
  };
  const auto logits = filled(6 * dims.vocab, 1, 20), x = filled(6 * dims.vocab, 1, 20);
  Buffer<std::int32_t> tokens(2 * 4);
  for (std::int64_t i = 0; i < 8; ++i)
    tokens[i] = static_cast<std::int32_t>((i * dims.vocab / 7 + dims.vocab - 1) % dims.vocab);
  Buffer<float> losses(6);
  Buffer<double> loss(1);
  cross_entropy(ctx, dims, tokens.data(), logits.data(), losses.data(), 0.25f);
  double mean = 0;
  for (std::int64_t r = 0; r < 6; ++r) {
    const std::int32_t target = tokens[r / 3 * 4 + r % 3 + 1];
    double total = 0;
    for (std::int64_t v = 0; v < dims.vocab; ++v) total += std::exp(double(x[at(r, v)]));
    const double expected = std::log(total) - x[at(r, target)];
    EXPECT_NEAR(losses[r], expected, 1e-6 * expected);
    mean += expected / 6;
    for (std::int64_t v = 0; v < dims.vocab; ++v)
      ASSERT_NEAR(logits[at(r, v)], 0.25 * (std::exp(double(x[at(r, v)])) / total - (v == target)),
                  2e-7)
          << "row " << r << " token " << v;
  }
  mean_loss(ctx, 6, losses.data(), loss.data(), true);
  EXPECT_NEAR(loss[0], mean, 1e-6 * mean);
  const double once = loss[0];
  mean_loss(ctx, 6, losses.data(), loss.data(), false);
  EXPECT_EQ(loss[0], 2 * once);
}

TEST_F(Primitives, not_a_number_reaches_the_loss) {
  TransformerDims dims;
  dims.vocab = 100, dims.sequence = 1, dims.micro_batch = 1;
  const auto logits = filled(100, 1);
  logits[37] = std::nanf("");
  Buffer<std::int32_t> tokens(2);
  tokens[0] = tokens[1] = 5;
  Buffer<float> losses(1);
  cross_entropy(ctx, dims, tokens.data(), logits.data(), losses.data(), 1);
  EXPECT_TRUE(std::isnan(losses[0]));
}

TEST_F(Primitives, embedding_gradient_of_a_repeated_token_is_summed_in_row_order) {
  constexpr std::int64_t sequence = 700, h = 21, rows = 2 * sequence;
  TransformerDims dims;
  dims.vocab = 9, dims.sequence = sequence, dims.micro_batch = 2, dims.hidden = h;
  Buffer<std::int32_t> tokens(2 * (sequence + 1));
  for (std::int64_t i = 0; i < tokens.size(); ++i)
    tokens[i] = static_cast<std::int32_t>(mix(1, 2, i) % 8);  // token 8 never occurs
  const auto dx = filled(rows * h, 1);
  Buffer<float> dwte(9 * h), dwpe(sequence * h);
  token_embedding_backward(ctx, dims, tokens.data(), dx.data(), dwte.data(), false);
  position_embedding_backward(ctx, dims, dx.data(), dwpe.data(), false);
  std::vector<float> expected(9 * h, 0.0f);
  const auto add_rows = [&] {
    for (std::int64_t r = 0; r < rows; ++r)
      for (std::int64_t j = 0; j < h; ++j)
        expected[tokens[r / sequence * (sequence + 1) + r % sequence] * h + j] += dx[r * h + j];
  };
  add_rows();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(dwte[i], expected[i]) << i;
  for (std::int64_t i = 0; i < sequence * h; ++i) EXPECT_EQ(dwpe[i], dx[i] + dx[sequence * h + i]);

  token_embedding_backward(ctx, dims, tokens.data(), dx.data(), dwte.data(), true);
  add_rows();
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(dwte[i], expected[i]) << i;
}

TEST_F(Primitives, polls_after_every_kernel_and_product) {
  std::int64_t polls = 0;
  ModelSpec spec;
  spec.layers = 1, spec.hidden = 8, spec.heads = 2, spec.sequence = 4, spec.vocab = 7;
  SingleProcess model(spec, 1, 1);
  model.uniform_tokens(1, 0);
  model.ctx.poll = [](void* count) { ++*static_cast<std::int64_t*>(count); };
  model.ctx.poll_arg = &polls;
  model.forward();
  const std::int64_t forward_kernels = 2 + (1 + 1 + 1) + 6 + 3;  // embeddings, block, head
  EXPECT_GE(polls, forward_kernels + model.matmul.calls() - 7);
  EXPECT_GT(polls, model.matmul.calls());
}

}  // namespace
}  // namespace shardmark::test::primitives_test
