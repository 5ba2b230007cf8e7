// SPDX-License-Identifier: Apache-2.0
// The one pass over memory in which an optimizer updates a shard. Only the optimizers of this
// folder include it; each gives the rule for one element.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <core/nn/kernels/pieces.hpp>
#include <core/nn/kernels/runs.hpp>
#include <core/nn/kernels/storage.hpp>

namespace shardmark::update_pass {

/// The arrays of a shard of `elems` elements: the master, its gradient, and `count` moments.
template<int count>
struct Arrays {
  std::int64_t elems;
  float* param;
  std::array<float*, count> moments;
};

/// The kernel's labels without and with a rounded result, which takes a quarter more time.
struct Labels {
  const char *plain, *rounding;
};

/// Returns the parameter after a step. Element `j` of the first `count` moments is its own; the
/// others are null.
template<int count, class Rule>
KOKKOS_INLINE_FUNCTION float next_param(const Rule& rule, float param, float gradient,
                                        [[maybe_unused]] float* first_moment,
                                        [[maybe_unused]] float* second_moment,
                                        [[maybe_unused]] std::int64_t j) {
  if constexpr (count == 2)
    return rule.step(param, gradient, first_moment[j], second_moment[j]);
  else if constexpr (count == 1)
    return rule.step(param, gradient, first_moment[j]);
  else
    return rule.step(param, gradient);
}

/// The update of a short run of elements, for a GPU: all but gradient and result are fp32.
template<int count, class Rule>
struct RunUpdate {
  float *param, *first_moment, *second_moment;
  ConstStored grad;
  Rule rule;
  const double* clip_coefficient;  // may be null
  Stored result;
  bool rounds;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t at, int n) const {
    const Rule of = rule;
    const float clip = clip_coefficient == nullptr ? 1.0F : static_cast<float>(*clip_coefficient);
    float p[kernel::short_run_elems], g[kernel::short_run_elems], m[kernel::short_run_elems],
        v[kernel::short_run_elems];
    kernel::load_run(param + at, n, p);
    kernel::load_run(grad.dtype, grad.data, at, n, g);
    if constexpr (count > 0) kernel::load_run(first_moment + at, n, m);
    if constexpr (count > 1) kernel::load_run(second_moment + at, n, v);
    for (int j = 0; j < kernel::short_run_elems; ++j)
      p[j] = next_param<count>(of, p[j], g[j] * clip, m, v, j);
    kernel::store_run(param + at, n, p);
    if constexpr (count > 0) kernel::store_run(first_moment + at, n, m);
    if constexpr (count > 1) kernel::store_run(second_moment + at, n, v);
    if (rounds) kernel::store_run(result.dtype, result.data, at, n, p);
  }
};

/// Gives each element of `arrays` to `rule.step(param, clipped gradient, moments &...)`, which
/// returns the new parameter. `clip_coefficient` is one double that the kernel reads, or null
/// for 1. `rounded` receives the new parameters in its type in the same pass. Throws PlanError for
/// types that parameters and gradients cannot have.
template<int count, class Rule>
void run(const Context& ctx, const Labels& labels, const Arrays<count>& arrays, ConstStored grad,
         const Rule& rule, const double* clip_coefficient, std::optional<Stored> rounded) {
  const bool rounds = rounded.has_value();
  const Stored result = rounded.value_or(Stored(arrays.param));
  for (const Dtype dtype : {grad.dtype, result.dtype}) with_storage(dtype, [](auto) {});
  // Large results bypass the caches, because they are not read again soon.
  const bool streams = rounds && kernel::worth_streaming(result.dtype, arrays.elems);
  float* const param = arrays.param;
  // One name each, since an array in the loops keeps compilers from using vector instructions.
  float *first_moment = nullptr, *second_moment = nullptr;
  if constexpr (count > 0) first_moment = arrays.moments.front();
  if constexpr (count > 1) second_moment = arrays.moments.back();
  if constexpr (!kernel::on_host)
    return kernel::for_each_run<kernel::short_run_elems>(
        ctx, rounds ? labels.rounding : labels.plain, arrays.elems,
        RunUpdate<count, Rule>{param, first_moment, second_moment, grad, rule, clip_coefficient,
                               result, rounds});
  kernel::for_each_piece(
      ctx, rounds ? labels.rounding : labels.plain, arrays.elems, result, streams,
      KOKKOS_LAMBDA(std::int64_t at, std::int64_t n, kernel::Results & results) {
        const Rule of = rule;
        const float clip =
            clip_coefficient == nullptr ? 1.0F : static_cast<float>(*clip_coefficient);
        float widened[kernel::piece_elems];
        const float* g = kernel::widen_piece(grad.dtype, grad.data, at, n, widened);
        float *p = param + at, *m = first_moment, *v = second_moment;
        if constexpr (count > 0) m += at;
        if constexpr (count > 1) v += at;
        kernel::strip_loop(
            n, [&](std::int64_t j) { p[j] = next_param<count>(of, p[j], g[j] * clip, m, v, j); },
            [&](std::int64_t j) {
              kernel::prefetch_after(p + j, kernel::lanes);
              if constexpr (count > 0) kernel::prefetch_after(m + j, kernel::lanes);
              if constexpr (count > 1) kernel::prefetch_after(v + j, kernel::lanes);
            });
        if (rounds) results.put(at, n, p);
      });
}

}  // namespace shardmark::update_pass
