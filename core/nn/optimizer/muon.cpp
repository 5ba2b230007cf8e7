// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include <core/nn/kernels/kernel.hpp>
#include <core/nn/optimizer/grad_norm.hpp>
#include <core/nn/optimizer/muon.hpp>
#include <core/nn/optimizer/update_pass.hpp>
#include <core/nn/products/matmul.hpp>
#include <core/numeric/half.hpp>

namespace shardmark {
namespace {

// The quintic polynomial's coefficients, chosen for the steepest slope at zero.
constexpr float coefficient_a = 3.4445F, coefficient_b = -4.7750F, coefficient_c = 2.0315F;

struct MuonRule {
  float keep, lr;
  KOKKOS_INLINE_FUNCTION float step(float param, float update) const {
    return param * keep - lr * update;
  }
};

// Calls f with a value of the 16-bit type in which the iterations run.
template<class F>
void with_half(Dtype dtype, const F& f) {
  if (dtype == Dtype::bf16)
    f(Bf16{});
  else
    f(Fp16{});
}

// PyTorch's lerp, whose two forms differ in rounding.
KOKKOS_INLINE_FUNCTION float lerp(float from, float to, float weight) {
  return weight < 0.5F ? from + weight * (to - from) : to - (to - from) * (1.0F - weight);
}

KOKKOS_INLINE_FUNCTION bool is_finite(double v) {
  return v - v == 0;
}

// to = factor * from
template<class T>
void scale(const Context& ctx, std::int64_t elems, T* to, const T* from, float factor) {
  kernel::for_each_elem(
      ctx, "shardmark::muon_scale", elems,
      KOKKOS_LAMBDA(std::int64_t i) { round_to(to[i], factor * widen(from[i])); });
}

template<class T>
void add_diagonal(const Context& ctx, std::int64_t n, T* square, float value) {
  kernel::for_each_elem(
      ctx, "shardmark::muon_diagonal", n, KOKKOS_LAMBDA(std::int64_t i) {
        round_to(square[i * n + i], widen(square[i * n + i]) + value);
      });
}

// The iterations on one matrix in its workspace. Square matrices are named by their index.
class NewtonSchulz {
 public:
  NewtonSchulz(const Context& ctx, const MuonMatrix& matrix, std::span<std::byte> workspace)
      : ctx_(ctx),
        dtype_(newton_schulz_type(matrix.muon)),
        rows_(matrix.rows),
        cols_(matrix.cols),
        n_(std::min(rows_, cols_)),
        gram_(iterates_on_gram(matrix.muon, rows_, cols_)),
        base_(workspace.data()),
        at_(muon_workspace(rows_, cols_)),
        scratch_(workspace.subspan(static_cast<std::size_t>(at_.gemm))),
        x_(stored(at_.matrix)),
        y_(stored(at_.product)) {}

  Stored x() const { return x_; }
  double* sums() const { return reinterpret_cast<double*>(base_ + at_.sums); }

  void iterate() { gram_ ? on_gram() : standard(); }

 private:
  Stored stored(std::int64_t offset) const { return {dtype_, base_ + offset}; }
  Stored square(int i) const { return stored(at_.square[i]); }

  void product(MatMulShape shape, ConstStored a, ConstStored b, Stored c) {
    shape.type = shape.c_type = dtype_;
    ctx_.matmul(ctx_.space, shape, a.data, b.data, c.data, nullptr, scratch_);
    ctx_.progress();
  }
  void scaled(Stored into, ConstStored from, float factor, std::int64_t elems) {
    with_half(dtype_, [&](auto type) {
      using T = decltype(type);
      scale(ctx_, elems, into.as<T>(), from.as<T>(), factor);
    });
  }
  void add_to_diagonal(int into, float value) {
    with_half(dtype_, [&](auto type) {
      using T = decltype(type);
      add_diagonal(ctx_, n_, square(into).template as<T>(), value);
    });
  }
  // into = factor * first + second * third
  void add_product(int into, float factor, int first, int second, int third) {
    scaled(square(into), square(first), factor, n_ * n_);
    product({.m = n_, .n = n_, .k = n_, .lda = n_, .ldb = n_, .ldc = n_, .accumulate = true},
            square(second), square(third), square(into));
  }
  // into = b first + (c first) first
  void polynomial(int into, int first, int scratch) {
    scaled(square(scratch), square(first), coefficient_c, n_ * n_);
    add_product(into, coefficient_b, first, scratch, first);
  }
  // into = X X^T for the matrix X whose rows are the shorter side
  void gram_matrix(int into) {
    const bool tall = rows_ > cols_;
    product({.m = n_,
             .n = n_,
             .k = std::max(rows_, cols_),
             .transpose_a = tall,
             .transpose_b = !tall,
             .lda = cols_,
             .ldb = cols_,
             .ldc = n_},
            x_, x_, square(into));
  }
  // X = factor X + Q X
  void apply(int q, float factor) {
    const bool adds = factor != 0;
    if (adds) scaled(y_, x_, factor, rows_ * cols_);
    if (rows_ > cols_)
      product({.m = rows_,
               .n = cols_,
               .k = n_,
               .transpose_b = true,
               .lda = cols_,
               .ldb = n_,
               .ldc = cols_,
               .accumulate = adds},
              x_, square(q), y_);
    else
      product({.m = rows_,
               .n = cols_,
               .k = n_,
               .lda = n_,
               .ldb = cols_,
               .ldc = cols_,
               .accumulate = adds},
              square(q), x_, y_);
    std::swap(x_, y_);
  }

  void standard() {
    for (int step = 0; step < newton_schulz_steps; ++step) {
      gram_matrix(0);
      polynomial(1, 0, 2);
      apply(1, coefficient_a);
    }
  }

  // Collects the polynomials' product Q while R follows as the Gram matrix of Q X.
  void on_gram() {
    int r = 0, z = 1, q = 2, next = 3, spare = 4;
    gram_matrix(r);
    for (int step = 0; step < newton_schulz_steps; ++step) {
      const bool fresh = step == 0 || step == gram_restart;
      if (step == gram_restart) {
        apply(q, 0);
        gram_matrix(r);
      }
      polynomial(z, r, next);
      if (fresh) {
        scaled(square(q), square(z), 1, n_ * n_);
        add_to_diagonal(q, coefficient_a);
      } else {
        add_product(next, coefficient_a, q, z, q);
        std::swap(q, next);
      }
      if (step + 1 == newton_schulz_steps || step + 1 == gram_restart) continue;
      add_product(next, coefficient_a, r, z, r);
      add_product(spare, coefficient_a, next, z, next);
      std::swap(r, spare);
    }
    apply(q, 0);
  }

  const Context& ctx_;
  const Dtype dtype_;
  const std::int64_t rows_, cols_, n_;
  const bool gram_;
  std::byte* const base_;
  const MuonWorkspace at_;
  const std::span<std::byte> scratch_;
  Stored x_, y_;
};

// Moves the momentum towards the gradient, and the gradient towards the new momentum.
template<class T>
void mix(const Context& ctx, std::int64_t elems, double momentum_kept, T* grad, T* staged,
         const T* momentum, const double* sum) {
  const auto beta = static_cast<float>(momentum_kept);
  const auto fresh = static_cast<float>(1.0 - momentum_kept);
  kernel::for_each_elem(
      ctx, "shardmark::muon_momentum", elems, KOKKOS_LAMBDA(std::int64_t i) {
        const float g = widen(grad[i]), old = widen(momentum[i]);
        T m;
        round_to(m, is_finite(*sum) ? lerp(old, g, fresh) : old);
        staged[i] = m;
        round_to(grad[i], lerp(g, widen(m), beta));
      });
}

// X = from / |from|. What has the type R before the iterations is rounded to it: the values, their
// norm and the quotient.
template<class R, class From, class X>
void normalize(const Context& ctx, std::int64_t elems, const From* from, X* x, const double* sum) {
  kernel::for_each_elem(
      ctx, "shardmark::muon_normalize", elems, KOKKOS_LAMBDA(std::int64_t i) {
        R norm, value;
        round_to(norm, static_cast<float>(std::sqrt(*sum)));
        round_to(norm, widen(norm) + 1e-7F);
        round_to(value, widen(from[i]));
        round_to(value, widen(value) / widen(norm));
        round_to(x[i], widen(value));
      });
}

template<class T, class X>
void write_update(const Context& ctx, std::int64_t elems, T* grad, const X* x, const double* sum,
                  float scale) {
  kernel::for_each_elem(
      ctx, "shardmark::muon_write", elems, KOKKOS_LAMBDA(std::int64_t i) {
        X scaled;
        round_to(scaled, widen(x[i]) * scale);
        if (is_finite(*sum)) round_to(grad[i], widen(scaled));
      });
}

// The method `standard` rounds to bf16 before it measures the norm; `gram` measures in the type of
// the gradient, or in fp32 if that is fp16. `from` is the gradient too.
template<class T>
void orthogonalize(const Context& ctx, const MuonMatrix& matrix, ConstStored from, T* grad,
                   T* staged, const T* momentum, std::span<std::byte> workspace) {
  const std::int64_t elems = matrix.rows * matrix.cols;
  NewtonSchulz iterations(ctx, matrix, workspace);
  double *first_sum = iterations.sums(), *sum = first_sum + 1;
  // A sum of squares of values of up to 32 bits is finite in fp64 if they are.
  sum_squares(ctx, elems, from, first_sum, true);
  mix(ctx, elems, matrix.beta, grad, staged, momentum, first_sum);
  if (matrix.muon == Optimizer::standard_muon) {
    convert(ctx, elems, iterations.x(), from);
    sum_squares(ctx, elems, iterations.x(), sum, true);
    normalize<Bf16>(ctx, elems, grad, iterations.x().template as<Bf16>(), sum);
  } else {
    sum_squares(ctx, elems, from, sum, true);
    using Norm = std::conditional_t<std::is_same_v<T, Bf16>, Bf16, float>;
    normalize<Norm>(ctx, elems, grad, iterations.x().template as<Fp16>(), sum);
  }
  iterations.iterate();
  const double ratio = static_cast<double>(matrix.rows) / static_cast<double>(matrix.cols);
  const float scale = ratio > 1 ? static_cast<float>(std::sqrt(ratio)) : 1.0F;
  with_half(iterations.x().dtype, [&](auto type) {
    write_update(ctx, elems, grad, iterations.x().template as<decltype(type)>(), first_sum, scale);
  });
}

}  // namespace

void muon_orthogonalize(const Context& ctx, const MuonMatrix& matrix, Stored grad, Stored staged,
                        ConstStored momentum, std::span<std::byte> workspace) {
  with_elements([&](auto*... data) { orthogonalize(ctx, matrix, grad, data..., workspace); }, grad,
                staged, momentum);
}

void muon_update(const Context& ctx, std::int64_t elems, float* param, ConstStored update,
                 const MuonStep& step, const double* clip_coefficient,
                 std::optional<Stored> rounded) {
  const MuonRule rule{static_cast<float>(1.0 - step.lr * step.weight_decay),
                      static_cast<float>(step.lr * step.lacking_scale)};
  update_pass::run<0>(ctx, {"shardmark::muon_update", "shardmark::muon_update_rounding"},
                      {elems, param, {}}, update, rule, clip_coefficient, rounded);
}

}  // namespace shardmark
