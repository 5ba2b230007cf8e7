// SPDX-License-Identifier: Apache-2.0
// Rules of Muon: its update is that of Newton-Schulz iterations in fp64, within the rounding of 16
// bits, for matrices of every form and by both methods; its momentum is exact; gradients that are
// not finite leave the momentum as it is; an update is applied like a gradient.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include <core/nn/optimizer/grad_norm.hpp>
#include <core/nn/optimizer/muon.hpp>
#include <core/numeric/half.hpp>
#include <tests/core/nn/models/single_process.hpp>

namespace shardmark::test::muon_test {
namespace {

using Matrix = std::vector<double>;  // row-major

Matrix times(const Matrix& a, const Matrix& b, std::int64_t m, std::int64_t k, std::int64_t n) {
  Matrix c(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t l = 0; l < k; ++l)
      for (std::int64_t j = 0; j < n; ++j) c[i * n + j] += a[i * k + l] * b[l * n + j];
  return c;
}

Matrix transposed(const Matrix& a, std::int64_t rows, std::int64_t cols) {
  Matrix t(a.size());
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < cols; ++j) t[j * rows + i] = a[i * cols + j];
  return t;
}

// X = 3.4445 X - 4.775 (X X^T) X + 2.0315 (X X^T)^2 X, five times, from X / |X|.
Matrix orthogonalized(Matrix x, std::int64_t rows, std::int64_t cols) {
  const double norm = std::sqrt(std::inner_product(x.begin(), x.end(), x.begin(), 0.0)) + 1e-7;
  for (double& v : x) v /= norm;
  for (int step = 0; step < 5; ++step) {
    const Matrix a = times(x, transposed(x, rows, cols), rows, cols, rows);
    const Matrix aa = times(a, a, rows, rows, rows);
    Matrix b(a.size());
    for (std::size_t i = 0; i < b.size(); ++i) b[i] = -4.7750 * a[i] + 2.0315 * aa[i];
    const Matrix bx = times(b, x, rows, rows, cols);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = 3.4445 * x[i] + bx[i];
  }
  const double scale = std::sqrt(std::max(1.0, double(rows) / double(cols)));
  for (double& v : x) v *= scale;
  return x;
}

constexpr std::int64_t gemm_bytes = std::int64_t{8} << 20;

// One call on a gradient and a momentum of random numbers.
struct Call {
  Call(Optimizer muon, std::int64_t r, std::int64_t c)
      : rows(r),
        cols(c),
        matrix{r, c, muon, 0.95},
        grad(r * c),
        staged(r * c),
        momentum(r * c),
        workspace(muon_workspace(r, c).gemm + gemm_bytes) {
    for (std::int64_t i = 0; i < r * c; ++i) {
      grad[i] = number(1, i);
      momentum[i] = number(2, i);
    }
  }
  static float number(std::uint64_t stream, std::int64_t i) {
    return static_cast<float>(static_cast<double>(mix(7, stream, i) >> 11) / 0x1p53 - 0.5);
  }
  void run() {
    MatMul matmul{gemm_bytes};
    const Context ctx{Space(), matmul};
    muon_orthogonalize(ctx, matrix, grad.data(), staged.data(), momentum.data(),
                       {workspace.data(), static_cast<std::size_t>(workspace.size())});
  }

  std::int64_t rows, cols;
  MuonMatrix matrix;
  Buffer<float> grad, staged, momentum;
  Buffer<std::byte> workspace;
};

TEST(Muon, makes_the_update_of_newton_schulz_iterations_in_fp64) {
  for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon})
    for (const auto& [rows, cols] : {std::pair{16, 16}, std::pair{8, 40}, std::pair{40, 8},
                                     std::pair{1, 5}, std::pair{7, 3}}) {
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(cols) + " in " +
                   std::string(to_string(newton_schulz_type(muon))));
      Call call(muon, rows, cols);
      Matrix blended;
      for (std::int64_t i = 0; i < call.grad.size(); ++i) {
        const double m = call.momentum[i] + 0.05 * (double(call.grad[i]) - call.momentum[i]);
        blended.push_back(call.grad[i] + 0.95 * (m - call.grad[i]));
      }
      const Matrix want = orthogonalized(blended, rows, cols);
      call.run();
      const double bound = muon == Optimizer::muon ? 0.01 : 0.06;
      for (std::int64_t i = 0; i < call.grad.size(); ++i) {
        EXPECT_NEAR(call.grad[i], want[i], bound) << i;
        const float momentum = Call::number(2, i);
        EXPECT_FLOAT_EQ(call.staged[i], momentum + 0.05F * (Call::number(1, i) - momentum));
        EXPECT_EQ(call.momentum[i], momentum);
      }
    }
}

// Gradient, momentum and update are rounded to the type that the gradient has.
template<class T>
void expect_update_in(Dtype dtype, const Optimizer muon) {
  constexpr std::int64_t rows = 24, cols = 10, elems = rows * cols;
  Buffer<T> grad(elems), staged(elems), momentum(elems);
  Matrix blended;
  std::vector<T> want_staged(elems);
  for (std::int64_t i = 0; i < elems; ++i) {
    round_to(grad[i], Call::number(1, i));
    round_to(momentum[i], Call::number(2, i));
    const float g = widen(grad[i]), m = widen(momentum[i]);
    round_to(want_staged[i], m + 0.05F * (g - m));
    blended.push_back(g + 0.95 * (double(widen(want_staged[i])) - g));
  }
  const Matrix want = orthogonalized(blended, rows, cols);
  Buffer<std::byte> workspace(muon_workspace(rows, cols).gemm + gemm_bytes);
  MatMul matmul{gemm_bytes};
  muon_orthogonalize({Space(), matmul}, {rows, cols, muon, 0.95}, {dtype, grad.data()},
                     {dtype, staged.data()}, {dtype, momentum.data()},
                     {workspace.data(), static_cast<std::size_t>(workspace.size())});
  for (std::int64_t i = 0; i < elems; ++i) {
    EXPECT_NEAR(widen(grad[i]), want[i], 0.06) << i;
    EXPECT_EQ(staged[i].bits, want_staged[i].bits) << i;
  }
}

TEST(Muon, takes_gradients_of_16_bits) {
  for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon}) {
    expect_update_in<Bf16>(Dtype::bf16, muon);
    expect_update_in<Fp16>(Dtype::fp16, muon);
  }
}

TEST(Muon, leaves_the_momentum_of_a_step_that_overflows) {
  Call call(Optimizer::muon, 6, 4);
  call.grad[5] = std::numeric_limits<float>::infinity();
  call.run();
  for (std::int64_t i = 0; i < call.grad.size(); ++i) EXPECT_EQ(call.staged[i], call.momentum[i]);
  EXPECT_FALSE(std::isfinite(call.grad[5]));
}

TEST(Muon, keeps_gradients_of_zero) {
  Call call(Optimizer::muon, 4, 6);
  for (std::int64_t i = 0; i < call.grad.size(); ++i) call.grad[i] = call.momentum[i] = 0;
  call.run();
  for (std::int64_t i = 0; i < call.grad.size(); ++i) EXPECT_EQ(call.grad[i], 0);
}

TEST(Muon, decays_weights_apart_from_the_clipped_update) {
  MatMul matmul{0};
  const Context ctx{Space(), matmul};
  Buffer<float> param(2), update(2);
  Buffer<double> clip(1);
  Buffer<Bf16> rounded(2);
  param[0] = 1, param[1] = -2, update[0] = 4, update[1] = 8, clip[0] = 0.25;
  muon_update(ctx, 2, param.data(), update.data(), {0.5, 0.25}, clip.data(),
              Stored(Dtype::bf16, rounded.data()));
  EXPECT_EQ(param[0], 1 * 0.875F - 0.5F);
  EXPECT_EQ(param[1], -2 * 0.875F - 1.0F);
  EXPECT_EQ(widen(rounded[1]), -2.75F);
}

TEST(Muon, takes_gradients_that_were_clipped_before) {
  MatMul matmul{0};
  const Context ctx{Space(), matmul};
  Buffer<float> param(1), grad(1);
  Buffer<Bf16> narrow(3);
  Buffer<double> clip(1);
  clip[0] = 0.25, param[0] = 1, grad[0] = 3;
  clip_gradient(ctx, 1, grad.data(), clip.data());
  EXPECT_EQ(grad[0], 0.75F);
  muon_update(ctx, 1, param.data(), grad.data(), {1, 0}, nullptr);
  EXPECT_EQ(param[0], 0.25F);
  for (int i = 0; i < 3; ++i) round_to(narrow[i], 1.0F + static_cast<float>(i) / 128);
  clip[0] = 0.7;
  clip_gradient(ctx, 3, {Dtype::bf16, narrow.data()}, clip.data());
  for (int i = 0; i < 3; ++i) {
    Bf16 want;
    round_to(want, (1.0F + static_cast<float>(i) / 128) * 0.7F);
    EXPECT_EQ(narrow[i].bits, want.bits) << i;
  }
}

// Momentum in place: stage 0 does not stage it.
TEST(Muon, replaces_a_momentum_that_is_not_staged) {
  Call staged(Optimizer::muon, 12, 5), in_place(Optimizer::muon, 12, 5);
  staged.run();
  for (std::int64_t i = 0; i < in_place.grad.size(); ++i) in_place.staged[i] = in_place.momentum[i];
  MatMul matmul{gemm_bytes};
  muon_orthogonalize(
      {Space(), matmul}, in_place.matrix, in_place.grad.data(), in_place.staged.data(),
      in_place.staged.data(),
      {in_place.workspace.data(), static_cast<std::size_t>(in_place.workspace.size())});
  for (std::int64_t i = 0; i < staged.grad.size(); ++i) {
    EXPECT_EQ(in_place.grad[i], staged.grad[i]) << i;
    EXPECT_EQ(in_place.staged[i], staged.staged[i]) << i;
  }
}

TEST(Muon, gives_an_update_the_loss_scale_that_it_lacks) {
  MatMul matmul{0};
  const Context ctx{Space(), matmul};
  Buffer<float> param(1), update(1);
  Buffer<double> clip(1), sum(1), norm(2);
  param[0] = 1, update[0] = 4, clip[0] = 0.25 / 1024;
  muon_update(ctx, 1, param.data(), update.data(), {0.5, 0, 1024}, clip.data());
  EXPECT_EQ(param[0], 0.5F);
  clip[0] = 1;
  muon_update(ctx, 1, param.data(), update.data(), {0.125, 0}, clip.data());
  EXPECT_EQ(param[0], 0);
  // Gradients of norm 3 * 1024 and updates of norm 4, whose scale was half as large before.
  sum[0] = 9.0 * 1024 * 1024, clip[0] = 16;
  clip_from_sum(ctx, sum.data(), {1, 1024, 1, 1024}, norm.data(), clip.data());
  EXPECT_EQ(norm[0], 5);
  clip_from_sum(ctx, nullptr, {1, 1024, 2, 512}, norm.data(), clip.data());
  EXPECT_EQ(norm[0], 4);
}

}  // namespace
}  // namespace shardmark::test::muon_test
