// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/columns.hpp>
#include <core/nn/kernel.hpp>
#include <core/nn/layer_norm.hpp>

namespace shardmark {
namespace {

constexpr float eps = 1e-5f;

// One row. Kept apart so that both forward kernels give the same bits.
KOKKOS_INLINE_FUNCTION void normalise_row(std::int64_t hidden, const float* x, const float* weight,
                                          const float* bias, float* y, float* mean_out,
                                          float* rstd_out) {
  const float n = static_cast<float>(hidden);
  const float mean = kernel::lane_sum<float>(hidden, [&](std::int64_t j) { return x[j]; }) / n;
  const float variance = kernel::lane_sum<float>(hidden,
                                                 [&](std::int64_t j) {
                                                   const float d = x[j] - mean;
                                                   return d * d;
                                                 }) /
                         n;
  const float rstd = 1.0f / std::sqrt(variance + eps);
  *mean_out = mean;
  *rstd_out = rstd;
  kernel::simd_loop(hidden,
                    [&](std::int64_t j) { y[j] = (x[j] - mean) * rstd * weight[j] + bias[j]; });
}

// The gradient of one row's input: two means over the row, then element by element.
struct RowGradient {
  const float *x, *weight, *dy;
  float mean, rstd, g_mean, gn_mean;

  KOKKOS_INLINE_FUNCTION RowGradient(std::int64_t hidden, const float* x_row, float row_mean,
                                     float row_rstd, const float* w, const float* dy_row)
      : x(x_row), weight(w), dy(dy_row), mean(row_mean), rstd(row_rstd) {
    const float n = static_cast<float>(hidden);
    g_mean = kernel::lane_sum<float>(hidden, [&](std::int64_t j) { return dy[j] * weight[j]; }) / n;
    gn_mean = kernel::lane_sum<float>(
                  hidden, [&](std::int64_t j) { return dy[j] * weight[j] * normal(j); }) /
              n;
  }
  KOKKOS_INLINE_FUNCTION float normal(std::int64_t j) const { return (x[j] - mean) * rstd; }
  KOKKOS_INLINE_FUNCTION float input(std::int64_t j) const {
    return rstd * (dy[j] * weight[j] - g_mean - normal(j) * gn_mean);
  }
};

}  // namespace

void layer_norm_forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, const float* x,
                        const float* weight, const float* bias, float* y, float* mean,
                        float* rstd) {
  kernel::for_each(
      ctx, "shardmark::layer_norm_forward", rows, KOKKOS_LAMBDA(std::int64_t r) {
        normalise_row(hidden, x + r * hidden, weight, bias, y + r * hidden, mean + r, rstd + r);
      });
}

// With g = dy * weight and n = (x - mean) * rstd: dx = rstd * (g - mean(g) - n * mean(g * n)).
void layer_norm_backward_rows(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                              const float* x, const float* mean, const float* rstd,
                              const float* weight, const float* dy, float* dx) {
  kernel::for_each(
      ctx, "shardmark::layer_norm_backward_rows", rows, KOKKOS_LAMBDA(std::int64_t r) {
        const RowGradient row(hidden, x + r * hidden, mean[r], rstd[r], weight, dy + r * hidden);
        float* dx_row = dx + r * hidden;
        kernel::simd_loop(hidden, [&](std::int64_t j) { dx_row[j] = dx_row[j] + row.input(j); });
      });
}

void layer_norm_input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                               const float* x, const float* mean, const float* rstd,
                               const float* weight, const float* dy, float* dx) {
  kernel::for_each(
      ctx, "shardmark::layer_norm_input_gradient", rows, KOKKOS_LAMBDA(std::int64_t r) {
        const RowGradient row(hidden, x + r * hidden, mean[r], rstd[r], weight, dy + r * hidden);
        float* dx_row = dx + r * hidden;
        kernel::simd_loop(hidden, [&](std::int64_t j) { dx_row[j] = row.input(j); });
      });
}

void layer_norm_backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                                const float* x, const float* mean, const float* rstd,
                                const float* dy, float* dweight, float* dbias, bool accumulate) {
  kernel::for_each_strip(
      ctx, "shardmark::layer_norm_backward_params", hidden,
      KOKKOS_LAMBDA(std::int64_t begin, std::int64_t count) {
        kernel::sum_columns(rows, begin, count, dweight, accumulate,
                            [=](std::int64_t r, std::int64_t j) {
                              const std::int64_t at = r * hidden + j;
                              return dy[at] * ((x[at] - mean[r]) * rstd[r]);
                            });
        kernel::sum_columns(rows, begin, count, dbias, accumulate,
                            [=](std::int64_t r, std::int64_t j) { return dy[r * hidden + j]; });
      });
}

}  // namespace shardmark
