// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <memory>

#include <core/nn/kernels/columns.hpp>
#include <core/nn/kernels/rows.hpp>
#include <core/nn/layers/elementwise.hpp>
#include <core/nn/layers/rms_norm.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {
namespace {

// The sum of the squares of a row.
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
// An element times the scale of its row and its factor.
struct ScaleAndWeigh {
  float scale, offset;
  KOKKOS_INLINE_FUNCTION float operator()(float x, float weight) const {
    return x * scale * (offset + weight);
  }
};

template<class T>
void forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, std::int64_t stride,
             const T* x, const T* weight, T* y, float* rstd, NormRule rule) {
  kernel::for_each_row(
      ctx, "shardmark::rms_norm_forward", rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T *x_row = x + r * stride, *w = weight;
        const float squares = squares_of(row, hidden, x_row);
        const float scale = 1.0f / std::sqrt(squares / static_cast<float>(hidden) + rule.eps);
        row.once([&] { rstd[r] = scale; });
        row.map(hidden, y + r * hidden, ScaleAndWeigh{scale, rule.offset}, x_row, w);
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
void input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden, std::int64_t stride,
                    const float* rstd, const D* dy, const T* x, const T* weight, T* dx,
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
void backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                     std::int64_t stride, const float* rstd, const D* dy, const T* x, T* dweight,
                     bool accumulate) {
  const WeightTerms<T, D> terms{hidden, stride, x, rstd, dy};
  kernel::for_each_strip(
      ctx, "shardmark::rms_norm_backward_params", hidden,
      KOKKOS_LAMBDA(const kernel::Strip& strip) { strip.sum(rows, dweight, accumulate, terms); });
}

/// The operands of both gradients. `sums` is [teams][hidden].
template<class T, class D>
struct BothOperands {
  std::int64_t rows, hidden;
  const T *x, *weight;
  const D* dy;
  const float* rstd;
  T* dx;
  float* sums;
  float offset;
  bool add;
};
template<class T, class D>
BothOperands(std::int64_t, std::int64_t, const T*, const T*, const D*, const float*, T*, float*,
             float, bool) -> BothOperands<T, D>;

/// Both gradients by teams of a GPU, each of which has every n-th row of n teams. A thread has R
/// runs of columns, whose terms of the weights' gradient it adds up in registers.
template<class T, class D, int R>
struct BothGradients {
  using Values = float[R][kernel::run_elems];

  BothOperands<T, D> of;

  KOKKOS_INLINE_FUNCTION void operator()(const kernel::Team& team) const {
    Values factors, terms = {};
    for_each_run(team, [&](int k, std::int64_t j, int n) {
      kernel::load_run(of.weight + j, n, factors[k]);
      for (float& f : factors[k]) f += of.offset;
    });
    for (std::int64_t r = team.league_rank(); r < of.rows; r += team.league_size())
      make_row(team, r, factors, terms);
    float* to = of.sums + std::int64_t{team.league_rank()} * of.hidden;
    for_each_run(team,
                 [&](int k, std::int64_t j, int n) { kernel::store_run(to + j, n, terms[k]); });
  }

 private:
  KOKKOS_INLINE_FUNCTION void make_row(const kernel::Team& team, std::int64_t r,
                                       const Values& factors, Values& terms) const {
    const float scale = of.rstd[r];
    const std::int64_t at = r * of.hidden;
    Values g, n, to = {};
    float part = 0, gn_mean = 0;
    for_each_run(team, [&](int k, std::int64_t j, int count) {
      kernel::load_run(of.dy + at + j, count, g[k]);
      kernel::load_run(of.x + at + j, count, n[k]);
      if (of.add) kernel::load_run(of.dx + at + j, count, to[k]);
      for (int i = 0; i < kernel::run_elems; ++i) {
        n[k][i] *= scale;
        terms[k][i] += g[k][i] * n[k][i];
        g[k][i] *= factors[k][i];
        part += g[k][i] * n[k][i];
      }
    });
    Kokkos::parallel_reduce(
        Kokkos::TeamThreadRange(team, team.team_size()), [&](int, float& sum) { sum += part; },
        gn_mean);
    gn_mean /= static_cast<float>(of.hidden);
    for_each_run(team, [&](int k, std::int64_t j, int count) {
      for (int i = 0; i < kernel::run_elems; ++i) to[k][i] += scale * (g[k][i] - n[k][i] * gn_mean);
      kernel::store_run(of.dx + at + j, count, to[k]);
    });
  }

  // Calls `f(k, j, n)` for the thread's runs k, of the columns [j, j + n).
  template<class F>
  KOKKOS_INLINE_FUNCTION void for_each_run(const kernel::Team& team, const F& f) const {
    for (int k = 0; k < R; ++k) {
      const std::int64_t run = std::int64_t{k} * team.team_size() + team.team_rank();
      const std::int64_t j = run * kernel::run_elems;
      if (j < of.hidden) f(k, j, kernel::elems_of_run(j, of.hidden));
    }
  }
};

// Returns false if the rows need more threads than a team may have.
template<int R, class T, class D>
bool both_gradients(const Context& ctx, std::int64_t teams, const BothOperands<T, D>& of) {
  constexpr std::int64_t per_thread = std::int64_t{R} * kernel::run_elems;
  const std::int64_t threads = (of.hidden + per_thread - 1) / per_thread;
  const std::int64_t warps = (threads + kernel::warp_lanes - 1) / kernel::warp_lanes;
  const BothGradients<T, D, R> body{of};
  const auto policy = kernel::team_policy(ctx, teams, static_cast<int>(warps * kernel::warp_lanes),
                                          1, 0, body, Kokkos::ParallelForTag());
  if (policy.team_size() * per_thread < of.hidden) return false;
  Kokkos::parallel_for("shardmark::rms_norm_gradients", policy, body);
  ctx.progress();
  return true;
}

std::int64_t between_rows(std::int64_t hidden, std::int64_t x_stride) {
  return x_stride > 0 ? x_stride : hidden;
}

}  // namespace

void rms_norm_forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                      ConstStored weight, Stored y, float* rstd, const NormRule& rule,
                      std::int64_t x_stride) {
  const std::int64_t stride = between_rows(hidden, x_stride);
  with_elements([&](auto*... t) { forward(ctx, rows, hidden, stride, t..., rstd, rule); }, x,
                weight, y);
}

void rms_norm_input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                             ConstStored x, const float* rstd, ConstStored weight, ConstStored dy,
                             Stored dx, bool accumulate, const NormRule& rule,
                             std::int64_t x_stride) {
  const std::int64_t stride = between_rows(hidden, x_stride);
  with_elements_and_sums(
      [&](auto*... t) {
        input_gradient(ctx, rows, hidden, stride, rstd, t..., accumulate, rule.offset);
      },
      dy, x, weight, dx);
}

void rms_norm_backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                              ConstStored x, const float* rstd, ConstStored dy, Stored dweight,
                              bool accumulate, std::int64_t x_stride) {
  const std::int64_t stride = between_rows(hidden, x_stride);
  with_elements_and_sums(
      [&](auto*... t) { backward_params(ctx, rows, hidden, stride, rstd, t..., accumulate); }, dy,
      x, dweight);
}

bool rms_norm_gradients(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                        const float* rstd, ConstStored weight, ConstStored dy, Stored dx, bool add,
                        Stored dweight, bool accumulate, std::span<std::byte> scratch,
                        const NormRule& rule) {
  if constexpr (!kernel::rows_are_warps) return false;
  if (!NormTeams::take(hidden)) return false;
  const std::int64_t teams = std::min(rows, NormTeams::count);
  const auto wanted = static_cast<std::size_t>(teams * hidden) * sizeof(float);
  constexpr std::size_t line_bytes = 256;
  void* room = scratch.data();
  std::size_t bytes = scratch.size();
  if (std::align(line_bytes, wanted, room, bytes) == nullptr) return false;
  auto* sums = static_cast<float*>(room);
  bool made = false;
  with_elements_and_sums(
      [&](const auto* of_y, const auto* from, const auto* factors, auto* into) {
        const BothOperands of{rows, hidden, from, factors,     of_y,
                              rstd, into,   sums, rule.offset, add};
        // A team of a host has one thread.
        constexpr int few = kernel::on_host ? 128 : 1, many = kernel::on_host ? 1024 : 2;
        made = both_gradients<few>(ctx, teams, of) || both_gradients<many>(ctx, teams, of);
      },
      dy, x, weight, dx);
  if (made) bias_backward(ctx, teams, hidden, {Dtype::fp32, sums}, dweight, accumulate);
  return made;
}

}  // namespace shardmark
