// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/kernels/columns.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/rms_norm.hpp>

namespace shardmark {
namespace {

// The sum of the squares of a row, and the row times `scale` and its factors.
template<class T>
KOKKOS_INLINE_FUNCTION float squares_of(const kernel::ThreadRow& row, std::int64_t hidden,
                                        const T* x) {
  return row.sum<float>(hidden, [&](std::int64_t j) { return widen(x[j]) * widen(x[j]); });
}
template<class T>
KOKKOS_INLINE_FUNCTION float squares_of(const kernel::WarpRow& row, std::int64_t hidden,
                                        const T* x) {
  return row.collect_runs<float>(hidden, [&](std::int64_t j, int n, float& part) {
    float values[kernel::run_elems];
    kernel::load_run(x + j, n, values);
    for (const float v : values) part += v * v;
  });
}
template<class T>
KOKKOS_INLINE_FUNCTION void scale_row(const kernel::ThreadRow& row, std::int64_t hidden, const T* x,
                                      float scale, const T* weight, float offset, T* y) {
  row.loop(hidden, [&](std::int64_t j) {
    round_to(y[j], widen(x[j]) * scale * (offset + widen(weight[j])));
  });
}
template<class T>
KOKKOS_INLINE_FUNCTION void scale_row(const kernel::WarpRow& row, std::int64_t hidden, const T* x,
                                      float scale, const T* weight, float offset, T* y) {
  row.runs(hidden, [&](std::int64_t j, int n) {
    float values[kernel::run_elems], w[kernel::run_elems];
    kernel::load_run(x + j, n, values);
    kernel::load_run(weight + j, n, w);
    for (int i = 0; i < kernel::run_elems; ++i) values[i] = values[i] * scale * (offset + w[i]);
    kernel::store_run(y + j, n, values);
  });
}

template<class T>
void forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* x,
             std::int64_t stride, const T* weight, T* y, float* rstd, NormRule rule) {
  kernel::for_each_row(
      ctx, "shardmark::rms_norm_forward", rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T *x_row = x + r * stride, *w = weight;
        T* y_row = y + r * hidden;
        const float squares = squares_of(row, hidden, x_row);
        const float scale = 1.0f / std::sqrt(squares / static_cast<float>(hidden) + rule.eps);
        row.once([&] { rstd[r] = scale; });
        scale_row(row, hidden, x_row, scale, w, rule.offset, y_row);
      });
}

/// One row of the gradient of a norm's input.
template<class T, class D>
struct InputGradientRow {
  std::int64_t hidden;
  const T *x, *weight;
  const D* dy;
  T* dx;
  float scale, offset;
  bool accumulate;

  KOKKOS_INLINE_FUNCTION void make(const kernel::ThreadRow& row) const {
    auto g = [&](std::int64_t j) { return widen(dy[j]) * (offset + widen(weight[j])); };
    auto n = [&](std::int64_t j) { return widen(x[j]) * scale; };
    const float gn_mean = row.sum<float>(hidden, [&](std::int64_t j) { return g(j) * n(j); }) /
                          static_cast<float>(hidden);
    row.store(hidden, dx, accumulate,
              [&](std::int64_t j) { return scale * (g(j) - n(j) * gn_mean); });
  }

  KOKKOS_INLINE_FUNCTION void make(const kernel::WarpRow& row) const {
    const auto products = [&](std::int64_t j, int count, float& part) {
      float g[kernel::run_elems], n[kernel::run_elems];
      load(j, count, g, n);
      for (int i = 0; i < kernel::run_elems; ++i) part += g[i] * n[i];
    };
    const float gn_mean = row.collect_runs<float>(hidden, products) / static_cast<float>(hidden);
    row.runs(hidden, [&](std::int64_t j, int count) {
      float g[kernel::run_elems], n[kernel::run_elems], to[kernel::run_elems] = {};
      load(j, count, g, n);
      if (accumulate) kernel::load_run(dx + j, count, to);
      for (int i = 0; i < kernel::run_elems; ++i) to[i] += scale * (g[i] - n[i] * gn_mean);
      kernel::store_run(dx + j, count, to);
    });
  }

 private:
  KOKKOS_INLINE_FUNCTION void load(std::int64_t j, int count, float (&g)[kernel::run_elems],
                                   float (&n)[kernel::run_elems]) const {
    float w[kernel::run_elems];
    kernel::load_run(dy + j, count, g);
    kernel::load_run(weight + j, count, w);
    kernel::load_run(x + j, count, n);
    for (int i = 0; i < kernel::run_elems; ++i) g[i] *= offset + w[i], n[i] *= scale;
  }
};

// With g = dy * weight and n = x * rstd: dx = rstd * (g - n * mean(g * n)).
template<class T, class D>
void input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* x,
                    std::int64_t stride, const float* rstd, const T* weight, const D* dy, T* dx,
                    bool accumulate, float offset) {
  kernel::for_each_row(
      ctx, "shardmark::rms_norm_input_gradient", rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        InputGradientRow<T, D>{hidden,          x + r * stride, weight, dy + r * hidden,
                               dx + r * stride, rstd[r],        offset, accumulate}
            .make(row);
      });
}

/// The terms of the gradient of the weights: dy * x * rstd.
template<class T, class D>
struct WeightTerms {
  std::int64_t hidden, stride;
  const T* x;
  const float* rstd;
  const D* dy;

  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t r, std::int64_t j) const {
    return widen(dy[r * hidden + j]) * (widen(x[r * stride + j]) * rstd[r]);
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t r, std::int64_t j, int n,
                                         float (&terms)[kernel::run_elems]) const {
    float values[kernel::run_elems];
    kernel::load_run(dy + r * hidden + j, n, terms);
    kernel::load_run(x + r * stride + j, n, values);
    const float scale = rstd[r];
    for (int i = 0; i < kernel::run_elems; ++i) terms[i] *= values[i] * scale;
  }
};

template<class T, class D>
void backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* x,
                     std::int64_t stride, const float* rstd, const D* dy, T* dweight,
                     bool accumulate) {
  const WeightTerms<T, D> terms{hidden, stride, x, rstd, dy};
  kernel::for_each_strip(
      ctx, "shardmark::rms_norm_backward_params", hidden,
      KOKKOS_LAMBDA(const kernel::Strip& strip) { strip.sum(rows, dweight, accumulate, terms); });
}

std::int64_t between_rows(std::int64_t hidden, std::int64_t x_stride) {
  return x_stride > 0 ? x_stride : hidden;
}

}  // namespace

void rms_norm_forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                      ConstStored weight, Stored y, float* rstd, const NormRule& rule,
                      std::int64_t x_stride) {
  with_storage(x.dtype, [&](auto type) {
    using T = decltype(type);
    forward(ctx, rows, hidden, x.as<T>(), between_rows(hidden, x_stride), weight.as<T>(), y.as<T>(),
            rstd, rule);
  });
}

void rms_norm_input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                             ConstStored x, const float* rstd, ConstStored weight, ConstStored dy,
                             Stored dx, bool accumulate, const NormRule& rule,
                             std::int64_t x_stride) {
  with_types(x, dy, [&](auto type, auto dy_type) {
    using T = decltype(type);
    input_gradient(ctx, rows, hidden, x.as<T>(), between_rows(hidden, x_stride), rstd,
                   weight.as<T>(), dy.as<decltype(dy_type)>(), dx.as<T>(), accumulate, rule.offset);
  });
}

void rms_norm_backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                              ConstStored x, const float* rstd, ConstStored dy, Stored dweight,
                              bool accumulate, std::int64_t x_stride) {
  with_types(x, dy, [&](auto type, auto dy_type) {
    using T = decltype(type);
    backward_params(ctx, rows, hidden, x.as<T>(), between_rows(hidden, x_stride), rstd,
                    dy.as<decltype(dy_type)>(), dweight.as<T>(), accumulate);
  });
}

}  // namespace shardmark
