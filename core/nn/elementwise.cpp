// SPDX-License-Identifier: Apache-2.0
#include <core/nn/columns.hpp>
#include <core/nn/elementwise.hpp>
#include <core/nn/kernel.hpp>
#include <core/nn/math.hpp>

namespace shardmark {

void bias_residual(const Context& ctx, std::int64_t rows, std::int64_t hidden, const float* x,
                   const float* bias, float* out) {
  kernel::for_each(
      ctx, "shardmark::bias_residual", rows, KOKKOS_LAMBDA(std::int64_t r) {
        const float* x_row = x + r * hidden;
        const float* b = bias;
        float* row = out + r * hidden;
        kernel::simd_loop(hidden, [&](std::int64_t j) { row[j] = x_row[j] + (row[j] + b[j]); });
      });
}

void residual(const Context& ctx, std::int64_t elems, const float* x, float* out) {
  kernel::for_each_elem(
      ctx, "shardmark::residual", elems, KOKKOS_LAMBDA(std::int64_t i) { out[i] = x[i] + out[i]; });
}

void gelu_forward(const Context& ctx, std::int64_t elems, const float* x, float* y) {
  kernel::for_each_elem(
      ctx, "shardmark::gelu_forward", elems,
      KOKKOS_LAMBDA(std::int64_t i) { y[i] = gelu_f32(x[i]); });
}

void gelu_backward(const Context& ctx, std::int64_t elems, const float* x, float* y, float* d) {
  kernel::for_each_elem(
      ctx, "shardmark::gelu_backward", elems, KOKKOS_LAMBDA(std::int64_t i) {
        const GeluValue g = gelu_with_slope_f32(x[i]);
        y[i] = g.value;
        d[i] = d[i] * g.slope;
      });
}

void swiglu_forward(const Context& ctx, std::int64_t elems, const float* gate, const float* up,
                    float* y) {
  kernel::for_each_elem(
      ctx, "shardmark::swiglu_forward", elems,
      KOKKOS_LAMBDA(std::int64_t i) { y[i] = gate[i] * logistic_f32(gate[i]).value * up[i]; });
}

void swiglu_backward(const Context& ctx, std::int64_t elems, const float* gate, const float* up,
                     float* y, float* dgate, float* dup) {
  kernel::for_each_elem(
      ctx, "shardmark::swiglu_backward", elems, KOKKOS_LAMBDA(std::int64_t i) {
        const float x = gate[i], dy = dgate[i];
        const Logistic s = logistic_f32(x);
        const float silu = x * s.value;
        y[i] = silu * up[i];
        dup[i] = dy * silu;
        dgate[i] = dy * up[i] * (s.value + silu * s.complement);
      });
}

void bias_backward(const Context& ctx, std::int64_t rows, std::int64_t columns, const float* dy,
                   float* dbias, bool accumulate) {
  kernel::for_each_strip(
      ctx, "shardmark::bias_backward", columns,
      KOKKOS_LAMBDA(std::int64_t begin, std::int64_t count) {
        kernel::sum_columns(rows, begin, count, dbias, accumulate,
                            [=](std::int64_t r, std::int64_t j) { return dy[r * columns + j]; });
      });
}

}  // namespace shardmark
