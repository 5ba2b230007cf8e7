// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/kernels/columns.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/layer_norm.hpp>

namespace shardmark {
namespace {

constexpr float layer_norm_eps = 1e-5f;

template<class T>
void forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* all_x,
             const T* weight, const T* bias, T* all_y, float* mean_out, float* rstd_out) {
  kernel::for_each_row(
      ctx, "shardmark::layer_norm_forward", rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T *x = all_x + r * hidden, *w = weight, *b = bias;
        T* y = all_y + r * hidden;
        const auto n = static_cast<float>(hidden);
        const float mean = row.sum<float>(hidden, [&](std::int64_t j) { return widen(x[j]); }) / n;
        const float variance = row.sum<float>(hidden, [&](std::int64_t j) {
          const float d = widen(x[j]) - mean;
          return d * d;
        }) / n;
        const float rstd = 1.0f / std::sqrt(variance + layer_norm_eps);
        row.once([&] {
          mean_out[r] = mean;
          rstd_out[r] = rstd;
        });
        row.loop(hidden, [&](std::int64_t j) {
          round_to(y[j], (widen(x[j]) - mean) * rstd * widen(w[j]) + widen(b[j]));
        });
      });
}

// The gradient of one row's input: two means over the row, then one loop over its elements. With g
// = dy * weight and n = (x - mean) * rstd: dx = rstd * (g - mean(g) - n * mean(g * n)).
template<class T, class D>
struct RowGradient {
  const T *x, *weight;
  const D* dy;
  float mean, rstd, g_mean, gn_mean;

  KOKKOS_INLINE_FUNCTION RowGradient(const kernel::Row& row, std::int64_t hidden, const T* x_row,
                                     float row_mean, float row_rstd, const T* w, const D* dy_row)
      : x(x_row), weight(w), dy(dy_row), mean(row_mean), rstd(row_rstd) {
    const auto n = static_cast<float>(hidden);
    g_mean = row.sum<float>(hidden, [&](std::int64_t j) { return g(j); }) / n;
    gn_mean = row.sum<float>(hidden, [&](std::int64_t j) { return g(j) * normal(j); }) / n;
  }
  KOKKOS_INLINE_FUNCTION float g(std::int64_t j) const { return widen(dy[j]) * widen(weight[j]); }
  KOKKOS_INLINE_FUNCTION float normal(std::int64_t j) const { return (widen(x[j]) - mean) * rstd; }
  KOKKOS_INLINE_FUNCTION float input(std::int64_t j) const {
    return rstd * (g(j) - g_mean - normal(j) * gn_mean);
  }
};

template<class T>
void backward_rows(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* x,
                   const float* mean, const float* rstd, const T* weight, const T* dy, T* dx) {
  kernel::for_each_row(
      ctx, "shardmark::layer_norm_backward_rows", rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const RowGradient<T, T> gradient(row, hidden, x + r * hidden, mean[r], rstd[r], weight,
                                         dy + r * hidden);
        T* dx_row = dx + r * hidden;
        row.loop(hidden, [&](std::int64_t j) {
          round_to(dx_row[j], widen(dx_row[j]) + gradient.input(j));
        });
      });
}

template<class T, class D>
void input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* x,
                    const float* mean, const float* rstd, const T* weight, const D* dy, T* dx) {
  kernel::for_each_row(
      ctx, "shardmark::layer_norm_input_gradient", rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const RowGradient<T, D> gradient(row, hidden, x + r * hidden, mean[r], rstd[r], weight,
                                         dy + r * hidden);
        T* dx_row = dx + r * hidden;
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
        strip.sum(rows, dbias, accumulate,
                  [=](std::int64_t r, std::int64_t j) { return widen(dy[r * hidden + j]); });
      });
}

}  // namespace

void layer_norm_forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                        ConstStored weight, ConstStored bias, Stored y, float* mean, float* rstd) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    forward(ctx, rows, hidden, x.as<T>(), weight.as<T>(), bias.as<T>(), y.as<T>(), mean, rstd);
  });
}

void layer_norm_backward_rows(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                              ConstStored x, const float* mean, const float* rstd,
                              ConstStored weight, ConstStored dy, Stored dx) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    backward_rows(ctx, rows, hidden, x.as<T>(), mean, rstd, weight.as<T>(), dy.as<T>(), dx.as<T>());
  });
}

void layer_norm_input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                               ConstStored x, const float* mean, const float* rstd,
                               ConstStored weight, ConstStored dy, Stored dx) {
  with_types(x, dy, [&](auto type, auto dy_type) {
    using T = decltype(type);
    input_gradient(ctx, rows, hidden, x.as<T>(), mean, rstd, weight.as<T>(),
                   dy.as<decltype(dy_type)>(), dx.as<T>());
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
