// SPDX-License-Identifier: Apache-2.0
#include <core/nn/kernels/columns.hpp>
#include <core/nn/kernels/math.hpp>
#include <core/nn/layers/experts.hpp>

namespace shardmark {
namespace {

template<class T>
void collect(const Context& ctx, const char* label, const PlacedPairs& pairs, std::int64_t columns,
             const T* x, T* rows) {
  const PlacedPairs by = pairs;
  kernel::for_each_row(
      ctx, label, by.places, KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t place) {
        const std::int32_t pair = by.sources[place];
        T* to = rows + place * columns;
        if (pair < 0) return row.loop(columns, [&](std::int64_t j) { to[j] = T{}; });
        const T* from = x + pair / by.per_token * columns;
        row.loop(columns, [&](std::int64_t j) { to[j] = from[j]; });
      });
}

template<class T, class Y>
void combine(const Context& ctx, const Routes& by, std::int64_t columns, const float* weights,
             const T* sorted, Y* y, bool add) {
  kernel::for_each_row(
      ctx, "shardmark::combine_rows", by.rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        Y* to = y + r * columns;
        row.loop(columns, [&](std::int64_t j) {
          float sum = add ? widen(to[j]) : 0.0f;
          for (std::int64_t p = r * by.per_token; p < (r + 1) * by.per_token; ++p) {
            const float value = widen(sorted[by.places[p] * columns + j]);
            sum += weights != nullptr ? weights[p] * value : value;
          }
          round_to(to[j], sum);
        });
      });
}

template<class T>
void weigh(const Context& ctx, const Routes& by, const GatedRows& size, const UpRule& rule,
           const T* gate_up, T* act, T* dgate_up, float* dweights) {
  const std::int64_t ffn = size.columns, step = size.step, up_at = size.up();
  kernel::for_each_row(
      ctx, "shardmark::weigh_pairs", by.pairs(),
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t place) {
        const std::int32_t pair = by.sources[place];
        const float weight = by.weights[pair];
        const T* up = gate_up + place * size.stride + up_at;
        T *d = dgate_up + place * size.stride, *dup = d + up_at, *a = act + place * ffn;
        const auto dweight = row.template sum<float>(
            ffn, [&](std::int64_t j) { return rule(widen(up[j * step])) * widen(dup[j * step]); });
        row.once([&] { dweights[pair] = dweight; });
        row.loop(ffn, [&](std::int64_t j) {
          const float passed = rule.cuts(widen(up[j * step])) ? 0.0f : weight;
          round_to(a[j], weight * widen(a[j]));
          round_to(d[j * step], weight * widen(d[j * step]));
          round_to(dup[j * step], passed * widen(dup[j * step]));
        });
      });
}

template<class T>
void weigh_outputs(const Context& ctx, const Routes& by, std::int64_t columns, const T* bias,
                   T* rows, float* dweights) {
  kernel::for_each_row(
      ctx, "shardmark::weigh_rows", by.pairs(),
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t place) {
        const std::int32_t pair = by.sources[place];
        const float weight = by.weights[pair];
        const T* of_expert = bias + by.chosen[pair] * columns;
        T* d = rows + place * columns;
        const auto dweight = row.template sum<float>(
            columns, [&](std::int64_t j) { return widen(of_expert[j]) * widen(d[j]); });
        row.once([&] { dweights[pair] += dweight; });
        row.loop(columns, [&](std::int64_t j) { round_to(d[j], weight * widen(d[j])); });
      });
}

template<class T>
void add_shared(const Context& ctx, const SharedExpert& s, const T* sum, T* y) {
  const T *x = s.x.as<T>(), *weight = s.weight.as<T>(), *out = s.out.as<T>();
  const std::int64_t h = s.columns;
  float* factors = s.factor;
  kernel::for_each_row(
      ctx, "shardmark::add_shared_expert", s.rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const T* from = x + r * h;
        const auto logit = row.template sum<float>(
            h, [&](std::int64_t j) { return widen(from[j]) * widen(weight[j]); });
        const float factor = 1 / (1 + exp_f32(-logit));
        row.once([&] { factors[r] = factor; });
        row.loop(h, [&](std::int64_t j) {
          round_to(y[r * h + j], widen(sum[r * h + j]) + factor * widen(out[r * h + j]));
        });
      });
}

template<class T, class X>
void add_shared_backward(const Context& ctx, const SharedExpert& s, float* dlogits, X* dx,
                         const T* dy, T* dout) {
  const T *weight = s.weight.as<T>(), *out = s.out.as<T>();
  const std::int64_t h = s.columns;
  const float* factors = s.factor;
  kernel::for_each_row(
      ctx, "shardmark::add_shared_expert_backward", s.rows,
      KOKKOS_LAMBDA(const kernel::Row& row, std::int64_t r) {
        const float factor = factors[r];
        const auto dfactor = row.template sum<float>(
            h, [&](std::int64_t j) { return widen(dy[r * h + j]) * widen(out[r * h + j]); });
        const float dlogit = dfactor * factor * (1 - factor);
        row.once([&] { dlogits[r] = dlogit; });
        row.loop(h, [&](std::int64_t j) {
          round_to(dx[r * h + j], dlogit * widen(weight[j]));
          round_to(dout[r * h + j], factor * widen(dy[r * h + j]));
        });
      });
}

/// The terms of the gradient of the shared expert's gate: dlogit * x.
template<class T>
struct GateTerms {
  std::int64_t columns;
  const float* dlogits;
  const T* x;

  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t r, std::int64_t j) const {
    return dlogits[r] * widen(x[r * columns + j]);
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t r, std::int64_t j, int n,
                                         float (&terms)[kernel::run_elems]) const {
    kernel::load_run(x + r * columns + j, n, terms);
    for (float& term : terms) term *= dlogits[r];
  }
};

template<class T>
void shared_weight_backward(const Context& ctx, const SharedExpert& s, const float* dlogits,
                            T* dweight, bool accumulate) {
  const std::int64_t rows = s.rows;
  const GateTerms<T> terms{s.columns, dlogits, s.x.as<T>()};
  kernel::for_each_strip(
      ctx, "shardmark::shared_weight_backward", s.columns,
      KOKKOS_LAMBDA(const kernel::Strip& strip) { strip.sum(rows, dweight, accumulate, terms); });
}

}  // namespace

void collect_pairs(const Context& ctx, const char* label, const PlacedPairs& pairs,
                   std::int64_t columns, ConstStored x, Stored rows) {
  with_elements([&](auto*... data) { collect(ctx, label, pairs, columns, data...); }, x, rows);
}

void collect_rows(const Context& ctx, const Routes& routes, std::int64_t columns, ConstStored x,
                  Stored sorted) {
  collect_pairs(ctx, "shardmark::collect_rows", {routes.sources, routes.pairs(), routes.per_token},
                columns, x, sorted);
}

void combine_rows(const Context& ctx, const Routes& routes, std::int64_t columns,
                  const float* weights, ConstStored sorted, Stored y, bool add) {
  with_elements_and_sums(
      [&](auto* to, auto* from) { combine(ctx, routes, columns, weights, from, to, add); }, y,
      sorted);
}

void weigh_pairs(const Context& ctx, const Routes& routes, const GatedRows& size,
                 const GateRule& rule, ConstStored gate_up, Stored act, Stored dgate_up,
                 float* dweights) {
  with_elements([&](auto*... data) { weigh(ctx, routes, size, UpRule(rule), data..., dweights); },
                gate_up, act, dgate_up);
}

void weigh_rows(const Context& ctx, const Routes& routes, std::int64_t columns, ConstStored bias,
                Stored rows, float* dweights) {
  with_elements([&](auto*... data) { weigh_outputs(ctx, routes, columns, data..., dweights); },
                bias, rows);
}

void add_shared_expert(const Context& ctx, const SharedExpert& e, ConstStored sum, Stored y) {
  with_elements([&](auto*... data) { add_shared(ctx, e, data...); }, sum, y);
}

void add_shared_expert_backward(const Context& ctx, const SharedExpert& e, ConstStored dy,
                                float* dlogits, Stored dx, Stored dout, Stored dweight,
                                bool accumulate) {
  with_elements_and_sums([&](auto*... t) { add_shared_backward(ctx, e, dlogits, t...); }, dx, dy,
                         dout);
  if (dweight.data == nullptr) return;  // it is frozen
  with_elements([&](auto* to) { shared_weight_backward(ctx, e, dlogits, to, accumulate); },
                dweight);
}

}  // namespace shardmark
