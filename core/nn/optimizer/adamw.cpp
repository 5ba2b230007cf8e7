// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/kernels/kernel.hpp>
#include <core/nn/optimizer/adamw.hpp>
#include <core/numeric/half.hpp>
#include <core/numeric/prefetch.hpp>
#include <core/numeric/stream_store.hpp>

namespace shardmark {
namespace {

struct NotRounded {};

// The coefficients of a step, in the type in which the step is computed.
struct Coefficients {
  explicit Coefficients(const AdamWStep& s)
      : keep(s.decoupled ? static_cast<float>(1.0 - s.lr * s.weight_decay) : 1.0f),
        decay(s.decoupled ? 0.0f : static_cast<float>(s.weight_decay)),
        beta1(static_cast<float>(s.beta1)),
        new1(static_cast<float>(1.0 - s.beta1)),
        beta2(static_cast<float>(s.beta2)),
        new2(static_cast<float>(1.0 - s.beta2)),
        eps(static_cast<float>(s.eps)) {
    const double step = static_cast<double>(s.step);
    const double bias1 = s.bias_correction ? 1.0 - std::pow(s.beta1, step) : 1.0;
    const double bias2 = s.bias_correction ? 1.0 - std::pow(s.beta2, step) : 1.0;
    rate = static_cast<float>(s.lr / bias1);
    correction = static_cast<float>(1.0 / std::sqrt(bias2));
  }

  // Returns the parameter after the step and updates m and v.
  KOKKOS_INLINE_FUNCTION float step(float param, float clipped, float& m, float& v) const {
    const float g = decay != 0.0f ? clipped + decay * param : clipped;
    const float m_new = m * beta1 + g * new1;
    const float v_new = v * beta2 + g * g * new2;
    m = m_new;
    v = v_new;
    return param * keep - rate * (m_new / (std::sqrt(v_new) * correction + eps));
  }

  float keep, decay, beta1, new1, beta2, new2, eps, rate, correction;
};

template<class Rounded, class Make>
KOKKOS_INLINE_FUNCTION void store_block([[maybe_unused]] bool streams, std::int64_t count,
                                        Rounded* to, const Make& make) {
  if constexpr (kernel::on_host)
    if (streams) return kernel::stream_results(count, to, make);
  make(0, count, to);
}

template<class Grad, class Rounded>
void adamw_typed(const Context& ctx, std::int64_t elems, float* param, const Grad* grad, float* m,
                 float* v, const AdamWStep& s, const double* clip_coefficient, Rounded* rounded) {
  constexpr bool rounds = !std::is_same_v<Rounded, NotRounded>;
  // Large results bypass the caches, because they are not read again soon.
  constexpr std::int64_t block = kernel::on_host ? kernel::stream_block : 1;
  const bool streams = rounds && kernel::worth_streaming<Rounded>(elems);
  const Coefficients coefficients(s);
  kernel::for_each(
      ctx, "shardmark::adamw_update", (elems + block - 1) / block, KOKKOS_LAMBDA(std::int64_t b) {
        const Coefficients of = coefficients;
        const float clip = static_cast<float>(*clip_coefficient);
        const std::int64_t begin = b * block, rest = elems - begin;
        const std::int64_t count = rest < block ? rest : block;
        Rounded* to = rounds ? rounded + begin : nullptr;
        store_block(streams, count, to, [&](std::int64_t first, std::int64_t n, Rounded* results) {
          const std::int64_t at = begin + first;
          float *p = param + at, *m_ = m + at, *v_ = v + at;
          const Grad* g = grad + at;
          kernel::strip_loop(
              n,
              [&](std::int64_t j) {
                p[j] = of.step(p[j], widen(g[j]) * clip, m_[j], v_[j]);
                if constexpr (rounds) round_to(results[j], p[j]);
              },
              [&](std::int64_t j) {
                kernel::prefetch_after(p + j, kernel::lanes);
                kernel::prefetch_after(m_ + j, kernel::lanes);
                kernel::prefetch_after(v_ + j, kernel::lanes);
                kernel::prefetch_after(g + j, kernel::lanes);
              });
        });
      });
}

}  // namespace

void adamw_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad, float* m,
                  float* v, const AdamWStep& s, const double* clip_coefficient,
                  std::optional<Stored> rounded) {
  with_storage(grad.dtype, [&](auto grad_type) {
    const auto* g = grad.as<decltype(grad_type)>();
    if (!rounded)
      return adamw_typed<decltype(grad_type), NotRounded>(ctx, elems, param, g, m, v, s,
                                                          clip_coefficient, nullptr);
    with_storage(rounded->dtype, [&](auto type) {
      adamw_typed(ctx, elems, param, g, m, v, s, clip_coefficient, rounded->as<decltype(type)>());
    });
  });
}

}  // namespace shardmark
