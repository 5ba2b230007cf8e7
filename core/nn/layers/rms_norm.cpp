// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/kernels/columns.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/rms_norm.hpp>

namespace shardmark {
namespace {

template<class T>
void forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* x,
             const T* weight, T* y, float* rstd, NormRule rule) {
  kernel::for_each_row(
      ctx, "shardmark::rms_norm_forward", rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T *x_row = x + r * hidden, *w = weight;
        T* y_row = y + r * hidden;
        const auto squares = row.sum<float>(
            hidden, [&](std::int64_t j) { return widen(x_row[j]) * widen(x_row[j]); });
        const float scale = 1.0f / std::sqrt(squares / static_cast<float>(hidden) + rule.eps);
        row.once([&] { rstd[r] = scale; });
        row.loop(hidden, [&](std::int64_t j) {
          round_to(y_row[j], widen(x_row[j]) * scale * (rule.offset + widen(w[j])));
        });
      });
}

// With g = dy * weight and n = x * rstd: dx = rstd * (g - n * mean(g * n)).
template<class T, class D>
void input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* x,
                    const float* rstd, const T* weight, const D* dy, T* dx, bool accumulate,
                    float offset) {
  kernel::for_each_row(
      ctx, "shardmark::rms_norm_input_gradient", rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T *x_row = x + r * hidden, *w = weight;
        const D* dy_row = dy + r * hidden;
        T* dx_row = dx + r * hidden;
        const float scale = rstd[r];
        auto g = [&](std::int64_t j) { return widen(dy_row[j]) * (offset + widen(w[j])); };
        auto n = [&](std::int64_t j) { return widen(x_row[j]) * scale; };
        const float gn_mean = row.sum<float>(hidden, [&](std::int64_t j) { return g(j) * n(j); }) /
                              static_cast<float>(hidden);
        auto input = [&](std::int64_t j) { return scale * (g(j) - n(j) * gn_mean); };
        if (accumulate)
          row.loop(hidden,
                   [&](std::int64_t j) { round_to(dx_row[j], widen(dx_row[j]) + input(j)); });
        else
          row.loop(hidden, [&](std::int64_t j) { round_to(dx_row[j], input(j)); });
      });
}

template<class T, class D>
void backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* x,
                     const float* rstd, const D* dy, T* dweight, bool accumulate) {
  kernel::for_each_strip(
      ctx, "shardmark::rms_norm_backward_params", hidden,
      KOKKOS_LAMBDA(const kernel::Strip& strip) {
        strip.sum(rows, dweight, accumulate, [=](std::int64_t r, std::int64_t j) {
          const std::int64_t at = r * hidden + j;
          return widen(dy[at]) * (widen(x[at]) * rstd[r]);
        });
      });
}

}  // namespace

void rms_norm_forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                      ConstStored weight, Stored y, float* rstd, const NormRule& rule) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    forward(ctx, rows, hidden, x.as<T>(), weight.as<T>(), y.as<T>(), rstd, rule);
  });
}

void rms_norm_input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                             ConstStored x, const float* rstd, ConstStored weight, ConstStored dy,
                             Stored dx, bool accumulate, const NormRule& rule) {
  with_types(x, dy, [&](auto type, auto dy_type) {
    using T = decltype(type);
    input_gradient(ctx, rows, hidden, x.as<T>(), rstd, weight.as<T>(), dy.as<decltype(dy_type)>(),
                   dx.as<T>(), accumulate, rule.offset);
  });
}

void rms_norm_backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                              ConstStored x, const float* rstd, ConstStored dy, Stored dweight,
                              bool accumulate) {
  with_types(x, dy, [&](auto type, auto dy_type) {
    using T = decltype(type);
    backward_params(ctx, rows, hidden, x.as<T>(), rstd, dy.as<decltype(dy_type)>(), dweight.as<T>(),
                    accumulate);
  });
}

}  // namespace shardmark
