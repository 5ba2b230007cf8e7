// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/columns.hpp>
#include <core/nn/kernel.hpp>
#include <core/nn/rms_norm.hpp>

namespace shardmark {

void rms_norm_forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, const float* x,
                      const float* weight, float* y, float* rstd) {
  constexpr float eps = 1e-5f;
  kernel::for_each(
      ctx, "shardmark::rms_norm_forward", rows, KOKKOS_LAMBDA(std::int64_t r) {
        const float* x_row = x + r * hidden;
        const float* w = weight;
        float* y_row = y + r * hidden;
        const float squares =
            kernel::lane_sum<float>(hidden, [&](std::int64_t j) { return x_row[j] * x_row[j]; });
        const float scale = 1.0f / std::sqrt(squares / static_cast<float>(hidden) + eps);
        rstd[r] = scale;
        kernel::simd_loop(hidden, [&](std::int64_t j) { y_row[j] = x_row[j] * scale * w[j]; });
      });
}

// With g = dy * weight and n = x * rstd: dx = rstd * (g - n * mean(g * n)).
void rms_norm_input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                             const float* x, const float* rstd, const float* weight,
                             const float* dy, float* dx, bool accumulate) {
  kernel::for_each(
      ctx, "shardmark::rms_norm_input_gradient", rows, KOKKOS_LAMBDA(std::int64_t r) {
        const float *x_row = x + r * hidden, *dy_row = dy + r * hidden, *w = weight;
        float* dx_row = dx + r * hidden;
        const float scale = rstd[r];
        const float gn_mean =
            kernel::lane_sum<float>(
                hidden, [&](std::int64_t j) { return dy_row[j] * w[j] * (x_row[j] * scale); }) /
            static_cast<float>(hidden);
        auto input = [&](std::int64_t j) {
          return scale * (dy_row[j] * w[j] - x_row[j] * scale * gn_mean);
        };
        if (accumulate)
          kernel::simd_loop(hidden, [&](std::int64_t j) { dx_row[j] = dx_row[j] + input(j); });
        else
          kernel::simd_loop(hidden, [&](std::int64_t j) { dx_row[j] = input(j); });
      });
}

void rms_norm_backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                              const float* x, const float* rstd, const float* dy, float* dweight,
                              bool accumulate) {
  kernel::for_each_strip(
      ctx, "shardmark::rms_norm_backward_params", hidden,
      KOKKOS_LAMBDA(std::int64_t begin, std::int64_t count) {
        kernel::sum_columns(rows, begin, count, dweight, accumulate,
                            [=](std::int64_t r, std::int64_t j) {
                              const std::int64_t at = r * hidden + j;
                              return dy[at] * (x[at] * rstd[r]);
                            });
      });
}

}  // namespace shardmark
