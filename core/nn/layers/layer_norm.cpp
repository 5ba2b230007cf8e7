// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/kernels/columns.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/layer_norm.hpp>

namespace shardmark {
namespace {

using Values = float[kernel::run_elems];

// What multiplies an element of a normalised row: a weight and an offset, or nothing. `load` writes
// the factors of the run [j, j + n).
template<class T>
struct Weights {
  const T* weight;
  float offset;
  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t j) const {
    return offset + widen(weight[j]);
  }
  KOKKOS_INLINE_FUNCTION void load(std::int64_t j, int n, Values& w) const {
    kernel::load_run(weight + j, n, w);
    for (float& v : w) v += offset;
  }
};
struct NoWeights {
  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t) const { return 1; }
  KOKKOS_INLINE_FUNCTION void load(std::int64_t, int, Values& w) const {
    for (float& v : w) v = 1;
  }
};
template<class T>
struct Biases {
  const T* bias;
  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t j) const { return widen(bias[j]); }
  KOKKOS_INLINE_FUNCTION void load(std::int64_t j, int n, Values& b) const {
    kernel::load_run(bias + j, n, b);
  }
};
struct NoBiases {
  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t) const { return 0; }
  KOKKOS_INLINE_FUNCTION void load(std::int64_t, int, Values& b) const {
    for (float& v : b) v = 0;
  }
};

template<class T, class F>
void with_weights(const T* weight, const NormRule& rule, const F& f) {
  if (weight == nullptr)
    f(NoWeights());
  else
    f(Weights<T>{weight, rule.offset});
}
template<class T, class F>
void with_biases(const T* bias, const F& f) {
  if (bias == nullptr)
    f(NoBiases());
  else
    f(Biases<T>{bias});
}

/// Mean and variance of the elements of a row.
struct Moments {
  float mean, variance;
};
template<class T>
KOKKOS_INLINE_FUNCTION Moments moments_of(const kernel::ThreadRow& row, std::int64_t hidden,
                                          const T* x) {
  const auto n = static_cast<float>(hidden);
  const float mean = row.sum<float>(hidden, [&](std::int64_t j) { return widen(x[j]); }) / n;
  const float variance = row.sum<float>(hidden, [&](std::int64_t j) {
    const float d = widen(x[j]) - mean;
    return d * d;
  }) / n;
  return {mean, variance};
}
template<class T>
KOKKOS_INLINE_FUNCTION Moments moments_of(const kernel::WarpRow& row, std::int64_t hidden,
                                          const T* x) {
  const auto n = static_cast<float>(hidden);
  const auto values = [&](std::int64_t j, int count, float& part) {
    Values v;
    kernel::load_run(x + j, count, v);
    for (const float value : v) part += value;
  };
  const float mean = row.collect_runs<float>(hidden, values) / n;
  const auto squares = [&](std::int64_t j, int count, float& part) {
    Values v;
    kernel::load_run(x + j, count, v);
    for (int i = 0; i < count; ++i) part += (v[i] - mean) * (v[i] - mean);
  };
  return {mean, row.collect_runs<float>(hidden, squares) / n};
}

// y = (x - mean) * rstd * weight + bias, for one row.
template<class T, class W, class B>
KOKKOS_INLINE_FUNCTION void normalise(const kernel::ThreadRow& row, std::int64_t hidden, const T* x,
                                      float mean, float rstd, W w, B b, T* y) {
  row.loop(hidden,
           [&](std::int64_t j) { round_to(y[j], (widen(x[j]) - mean) * rstd * w(j) + b(j)); });
}
template<class T, class W, class B>
KOKKOS_INLINE_FUNCTION void normalise(const kernel::WarpRow& row, std::int64_t hidden, const T* x,
                                      float mean, float rstd, W weights, B biases, T* y) {
  row.runs(hidden, [&](std::int64_t j, int n) {
    Values v, w, b;
    kernel::load_run(x + j, n, v);
    weights.load(j, n, w);
    biases.load(j, n, b);
    for (int i = 0; i < kernel::run_elems; ++i) v[i] = (v[i] - mean) * rstd * w[i] + b[i];
    kernel::store_run(y + j, n, v);
  });
}

template<class T, class W, class B>
void forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, const T* all_x, W weights,
             B biases, T* all_y, float* mean_out, float* rstd_out, float eps) {
  kernel::for_each_row(
      ctx, "shardmark::layer_norm_forward", rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T* x = all_x + r * hidden;
        const Moments m = moments_of(row, hidden, x);
        const float mean = m.mean, rstd = 1.0f / std::sqrt(m.variance + eps);
        row.once([&] {
          mean_out[r] = mean;
          rstd_out[r] = rstd;
        });
        normalise(row, hidden, x, mean, rstd, weights, biases, all_y + r * hidden);
      });
}

/// The gradient of one row's input: two means over the row, then one loop over its elements. With
/// g = dy * weight and n = (x - mean) * rstd: dx = rstd * (g - mean(g) - n * mean(g * n)).
template<class T, class D, class W>
struct CenteredGradientRow {
  std::int64_t hidden;
  const T* x;
  W weight;
  const D* dy;
  T* dx;
  float mean, rstd;
  bool accumulate;

  KOKKOS_INLINE_FUNCTION void make(const kernel::ThreadRow& row) const {
    const auto elems = static_cast<float>(hidden);
    auto g = [&](std::int64_t j) { return widen(dy[j]) * weight(j); };
    auto n = [&](std::int64_t j) { return (widen(x[j]) - mean) * rstd; };
    const float g_mean = row.sum<float>(hidden, [&](std::int64_t j) { return g(j); }) / elems;
    const float gn_mean =
        row.sum<float>(hidden, [&](std::int64_t j) { return g(j) * n(j); }) / elems;
    row.store(hidden, dx, accumulate,
              [&](std::int64_t j) { return rstd * (g(j) - g_mean - n(j) * gn_mean); });
  }

  KOKKOS_INLINE_FUNCTION void make(const kernel::WarpRow& row) const {
    const auto add = [&](std::int64_t j, int count, kernel::TwoSums& part) {
      Values g, n;
      load(j, count, g, n);
      for (int i = 0; i < kernel::run_elems; ++i) part.first += g[i], part.second += g[i] * n[i];
    };
    const auto elems = static_cast<float>(hidden);
    const auto sums = row.collect_runs<kernel::TwoSums>(hidden, add);
    const float g_mean = sums.first / elems, gn_mean = sums.second / elems;
    row.runs(hidden, [&](std::int64_t j, int count) {
      Values g, n, to = {};
      load(j, count, g, n);
      if (accumulate) kernel::load_run(dx + j, count, to);
      for (int i = 0; i < kernel::run_elems; ++i) to[i] += rstd * (g[i] - g_mean - n[i] * gn_mean);
      kernel::store_run(dx + j, count, to);
    });
  }

 private:
  // Beyond `count`, g is 0.
  KOKKOS_INLINE_FUNCTION void load(std::int64_t j, int count, Values& g, Values& n) const {
    Values w;
    kernel::load_run(dy + j, count, g);
    weight.load(j, count, w);
    kernel::load_run(x + j, count, n);
    for (int i = 0; i < kernel::run_elems; ++i) g[i] *= w[i], n[i] = (n[i] - mean) * rstd;
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
        CenteredGradientRow<T, D, W>{hidden,          x + r * hidden, weight,  dy + r * hidden,
                                     dx + r * hidden, mean[r],        rstd[r], accumulate}
            .make(row);
      });
}

/// The terms of the gradient of the weights: dy * (x - mean) * rstd.
template<class T, class D>
struct CenteredTerms {
  std::int64_t hidden;
  const T* x;
  const float *mean, *rstd;
  const D* dy;

  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t r, std::int64_t j) const {
    const std::int64_t at = r * hidden + j;
    return widen(dy[at]) * ((widen(x[at]) - mean[r]) * rstd[r]);
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t r, std::int64_t j, int n,
                                         Values& terms) const {
    Values v;
    kernel::load_run(dy + r * hidden + j, n, terms);
    kernel::load_run(x + r * hidden + j, n, v);
    const float from = mean[r], scale = rstd[r];
    for (int i = 0; i < kernel::run_elems; ++i) terms[i] *= (v[i] - from) * scale;
  }
};

template<class T, class D>
void backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden, const float* mean,
                     const float* rstd, const D* dy, const T* x, T* dweight, T* dbias,
                     bool accumulate) {
  const CenteredTerms<T, D> weight_terms{hidden, x, mean, rstd, dy};
  const kernel::Elements<D> bias_terms{dy, hidden};
  kernel::for_each_strip(
      ctx, "shardmark::layer_norm_backward_params", hidden,
      KOKKOS_LAMBDA(const kernel::Strip& strip) {
        strip.sum(rows, dweight, accumulate, weight_terms);
        if (dbias != nullptr) strip.sum(rows, dbias, accumulate, bias_terms);
      });
}

}  // namespace

void layer_norm_forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                        ConstStored weight, ConstStored bias, Stored y, float* mean, float* rstd,
                        const NormRule& rule) {
  with_elements(
      [&](auto* from, auto* factors, auto* terms, auto* to) {
        with_weights(factors, rule, [&](auto w) {
          with_biases(terms, [&](auto b) {
            forward(ctx, rows, hidden, from, w, b, to, mean, rstd, rule.eps);
          });
        });
      },
      x, weight, bias, y);
}

void layer_norm_input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                               ConstStored x, const float* mean, const float* rstd,
                               ConstStored weight, ConstStored dy, Stored dx, bool accumulate,
                               const NormRule& rule) {
  with_elements_and_sums(
      [&](auto* of_y, auto* from, auto* factors, auto* to) {
        with_weights(factors, rule, [&](auto w) {
          input_gradient(ctx, rows, hidden, from, mean, rstd, w, of_y, to, accumulate);
        });
      },
      dy, x, weight, dx);
}

void layer_norm_backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                                ConstStored x, const float* mean, const float* rstd, ConstStored dy,
                                Stored dweight, Stored dbias, bool accumulate) {
  with_elements_and_sums(
      [&](auto*... t) { backward_params(ctx, rows, hidden, mean, rstd, t..., accumulate); }, dy, x,
      dweight, dbias);
}

}  // namespace shardmark
