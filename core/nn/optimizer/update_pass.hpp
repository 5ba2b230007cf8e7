// SPDX-License-Identifier: Apache-2.0
// The one pass over memory in which an optimizer updates a shard. Only the optimizers of this
// folder include it; each gives the rule for one element.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include <core/nn/kernels/kernel.hpp>
#include <core/nn/kernels/storage.hpp>
#include <core/numeric/half.hpp>
#include <core/numeric/prefetch.hpp>
#include <core/numeric/stream_store.hpp>

namespace shardmark::update_pass {

struct NotRounded {};

/// The arrays of a shard of `elems` elements: the master, its gradient, and `count` moments.
template<int count>
struct Arrays {
  std::int64_t elems;
  float* param;
  std::array<float*, count> moments;
};

template<class Rounded, class Make>
KOKKOS_INLINE_FUNCTION void store_block([[maybe_unused]] bool streams, std::int64_t count,
                                        Rounded* to, const Make& make) {
  if constexpr (kernel::on_host)
    if (streams) return kernel::stream_results(count, to, make);
  make(0, count, to);
}

template<int count, class Rule, class Grad, class Rounded>
void typed(const Context& ctx, const char* name, const Arrays<count>& arrays, const Grad* grad,
           const Rule& rule, const double* clip_coefficient, Rounded* rounded) {
  constexpr bool rounds = !std::is_same_v<Rounded, NotRounded>;
  // Large results bypass the caches, because they are not read again soon.
  constexpr std::int64_t block = kernel::on_host ? kernel::stream_block : 1;
  const std::int64_t elems = arrays.elems;
  const bool streams = rounds && kernel::worth_streaming<Rounded>(elems);
  float* const param = arrays.param;
  // One name each, since an array in the loops keeps compilers from using vector instructions.
  float *first_moment = nullptr, *second_moment = nullptr;
  if constexpr (count > 0) first_moment = arrays.moments.front();
  if constexpr (count > 1) second_moment = arrays.moments.back();
  kernel::for_each(
      ctx, name, (elems + block - 1) / block, KOKKOS_LAMBDA(std::int64_t b) {
        const Rule of = rule;
        float *const m_all = first_moment, *const v_all = second_moment;
        const float clip = static_cast<float>(*clip_coefficient);
        const std::int64_t begin = b * block, rest = elems - begin;
        const std::int64_t n_of_block = rest < block ? rest : block;
        Rounded* to = rounds ? rounded + begin : nullptr;
        store_block(streams, n_of_block, to,
                    [&](std::int64_t first, std::int64_t n, Rounded* results) {
                      const std::int64_t at = begin + first;
                      float* p = param + at;
                      [[maybe_unused]] float *m = nullptr, *v = nullptr;
                      if constexpr (count > 0) m = m_all + at;
                      if constexpr (count > 1) v = v_all + at;
                      const Grad* g = grad + at;
                      kernel::strip_loop(
                          n,
                          [&](std::int64_t j) {
                            if constexpr (count == 2)
                              p[j] = of.step(p[j], widen(g[j]) * clip, m[j], v[j]);
                            else if constexpr (count == 1)
                              p[j] = of.step(p[j], widen(g[j]) * clip, m[j]);
                            else
                              p[j] = of.step(p[j], widen(g[j]) * clip);
                            if constexpr (rounds) round_to(results[j], p[j]);
                          },
                          [&](std::int64_t j) {
                            kernel::prefetch_after(p + j, kernel::lanes);
                            if constexpr (count > 0) kernel::prefetch_after(m + j, kernel::lanes);
                            if constexpr (count > 1) kernel::prefetch_after(v + j, kernel::lanes);
                            kernel::prefetch_after(g + j, kernel::lanes);
                          });
                    });
      });
}

/// Gives each element of `arrays` to `rule.step(param, clipped gradient, moments &...)`, which
/// returns the new parameter. `clip_coefficient` is one double that the kernel reads. `rounded`
/// receives the new parameters in its type in the same pass.
template<int count, class Rule>
void run(const Context& ctx, const char* name, const Arrays<count>& arrays, ConstStored grad,
         const Rule& rule, const double* clip_coefficient, std::optional<Stored> rounded) {
  with_storage(grad.dtype, [&](auto grad_type) {
    const auto* g = grad.as<decltype(grad_type)>();
    if (!rounded)
      return typed<count, Rule, decltype(grad_type), NotRounded>(ctx, name, arrays, g, rule,
                                                                 clip_coefficient, nullptr);
    with_storage(rounded->dtype, [&](auto type) {
      typed(ctx, name, arrays, g, rule, clip_coefficient, rounded->as<decltype(type)>());
    });
  });
}

}  // namespace shardmark::update_pass
