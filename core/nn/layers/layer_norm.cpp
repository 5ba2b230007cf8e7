// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/kernels/columns.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/layer_norm.hpp>

namespace shardmark {
namespace {

// What multiplies an element of a normalised row: a weight and an offset, or nothing.
template<class T>
struct Weights {
  const T* weight;
  float offset;
  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t j) const {
    return offset + widen(weight[j]);
  }
};
struct NoWeights {
  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t) const { return 1; }
};
template<class T>
struct Biases {
  const T* bias;
  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t j) const { return widen(bias[j]); }
};
struct NoBiases {
  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t) const { return 0; }
};

template<class T, class F>
void with_weights(ConstStored weight, const NormRule& rule, const F& f) {
  if (weight.data == nullptr)
    f(NoWeights());
  else
    f(Weights<T>{weight.as<T>(), rule.offset});
}

template<class T, class W, class B>
void forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* all_x, W weights,
             B biases, T* all_y, float* mean_out, float* rstd_out, float eps) {
  kernel::for_each_row(
      ctx, "shardmark::layer_norm_forward", rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T* x = all_x + r * hidden;
        const W w = weights;
        const B b = biases;
        T* y = all_y + r * hidden;
        const auto n = static_cast<float>(hidden);
        const float mean = row.sum<float>(hidden, [&](std::int64_t j) { return widen(x[j]); }) / n;
        const float variance = row.sum<float>(hidden, [&](std::int64_t j) {
          const float d = widen(x[j]) - mean;
          return d * d;
        }) / n;
        const float rstd = 1.0f / std::sqrt(variance + eps);
        row.once([&] {
          mean_out[r] = mean;
          rstd_out[r] = rstd;
        });
        row.loop(hidden, [&](std::int64_t j) {
          round_to(y[j], (widen(x[j]) - mean) * rstd * w(j) + b(j));
        });
      });
}

// The gradient of one row's input: two means over the row, then one loop over its elements. With g
// = dy * weight and n = (x - mean) * rstd: dx = rstd * (g - mean(g) - n * mean(g * n)).
template<class T, class D, class W>
struct RowGradient {
  const T* x;
  W weight;
  const D* dy;
  float mean, rstd, g_mean, gn_mean;

  KOKKOS_INLINE_FUNCTION RowGradient(const kernel::Row& row, std::int64_t hidden, const T* x_row,
                                     float row_mean, float row_rstd, W w, const D* dy_row)
      : x(x_row), weight(w), dy(dy_row), mean(row_mean), rstd(row_rstd) {
    const auto n = static_cast<float>(hidden);
    g_mean = row.sum<float>(hidden, [&](std::int64_t j) { return g(j); }) / n;
    gn_mean = row.sum<float>(hidden, [&](std::int64_t j) { return g(j) * normal(j); }) / n;
  }
  KOKKOS_INLINE_FUNCTION float g(std::int64_t j) const { return widen(dy[j]) * weight(j); }
  KOKKOS_INLINE_FUNCTION float normal(std::int64_t j) const { return (widen(x[j]) - mean) * rstd; }
  KOKKOS_INLINE_FUNCTION float input(std::int64_t j) const {
    return rstd * (g(j) - g_mean - normal(j) * gn_mean);
  }
};

template<class T, class D, class W>
void input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* x,
                    const float* mean, const float* rstd, W weight, const D* dy, T* dx,
                    bool accumulate) {
  const char* label =
      accumulate ? "shardmark::layer_norm_backward_rows" : "shardmark::layer_norm_input_gradient";
  kernel::for_each_row(
      ctx, label, rows, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const RowGradient<T, D, W> gradient(row, hidden, x + r * hidden, mean[r], rstd[r], weight,
                                            dy + r * hidden);
        T* dx_row = dx + r * hidden;
        if (accumulate)
          row.loop(hidden, [&](std::int64_t j) {
            round_to(dx_row[j], widen(dx_row[j]) + gradient.input(j));
          });
        else
          row.loop(hidden, [&](std::int64_t j) { round_to(dx_row[j], gradient.input(j)); });
      });
}

template<class T, class D>
void backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* x,
                     const float* mean, const float* rstd, const D* dy, T* dweight, T* dbias,
                     bool accumulate) {
  kernel::for_each_strip(
      ctx, "shardmark::layer_norm_backward_params", hidden,
      KOKKOS_LAMBDA(const kernel::Strip& strip) {
        strip.sum(rows, dweight, accumulate, [=](std::int64_t r, std::int64_t j) {
          const std::int64_t at = r * hidden + j;
          return widen(dy[at]) * ((widen(x[at]) - mean[r]) * rstd[r]);
        });
        if (dbias == nullptr) return;
        strip.sum(rows, dbias, accumulate,
                  [=](std::int64_t r, std::int64_t j) { return widen(dy[r * hidden + j]); });
      });
}

}  // namespace

void layer_norm_forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                        ConstStored weight, ConstStored bias, Stored y, float* mean, float* rstd,
                        const NormRule& rule) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    with_weights<T>(weight, rule, [&](auto w) {
      if (bias.data == nullptr)
        forward(ctx, rows, hidden, x.as<T>(), w, NoBiases(), y.as<T>(), mean, rstd, rule.eps);
      else
        forward(ctx, rows, hidden, x.as<T>(), w, Biases<T>{bias.as<T>()}, y.as<T>(), mean, rstd,
                rule.eps);
    });
  });
}

void layer_norm_input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                               ConstStored x, const float* mean, const float* rstd,
                               ConstStored weight, ConstStored dy, Stored dx, bool accumulate,
                               const NormRule& rule) {
  with_types(x, dy, [&](auto type, auto dy_type) {
    using T = decltype(type);
    with_weights<T>(weight, rule, [&](auto w) {
      input_gradient(ctx, rows, hidden, x.as<T>(), mean, rstd, w, dy.as<decltype(dy_type)>(),
                     dx.as<T>(), accumulate);
    });
  });
}

void layer_norm_backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                                ConstStored x, const float* mean, const float* rstd, ConstStored dy,
                                Stored dweight, Stored dbias, bool accumulate) {
  with_types(x, dy, [&](auto type, auto dy_type) {
    using T = decltype(type);
    backward_params(ctx, rows, hidden, x.as<T>(), mean, rstd, dy.as<decltype(dy_type)>(),
                    dweight.as<T>(), dbias.as<T>(), accumulate);
  });
}

}  // namespace shardmark
