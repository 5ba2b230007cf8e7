// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/half.hpp>
#include <core/nn/adamw.hpp>
#include <core/nn/kernel.hpp>
#include <core/stream_store.hpp>

namespace shardmark {
namespace {

struct NotRounded {};

// The result in the model's type, of a chunk that is in the first cache. Large results go past the
// caches: they are not read soon.
template<class T>
KOKKOS_INLINE_FUNCTION void round_chunk(std::int64_t elems, const float* param, T* rounded,
                                        [[maybe_unused]] bool streams) {
  if constexpr (kernel::on_host) {
    constexpr std::int64_t most = 2048;
    T scratch[most];
    for (std::int64_t first = 0; streams && first < elems; first += most) {
      const std::int64_t count = elems - first < most ? elems - first : most;
      const float* p = param + first;
      kernel::simd_loop(count, [&](std::int64_t j) { round_to(scratch[j], p[j]); });
      kernel::stream_copy(rounded + first, scratch, static_cast<std::size_t>(count) * sizeof(T));
    }
    if (streams) return kernel::finish_streams();
  }
  kernel::simd_loop(elems, [&](std::int64_t j) { round_to(rounded[j], param[j]); });
}

template<class Grad, class Rounded>
void adamw_typed(const Context& ctx, std::int64_t elems, float* param, const Grad* grad, float* m,
                 float* v, const AdamWStep& s, const double* clip_coefficient, Rounded* rounded) {
  const double step = static_cast<double>(s.step);
  const float keep = s.decoupled ? static_cast<float>(1.0 - s.lr * s.weight_decay) : 1.0f;
  const float decay = s.decoupled ? 0.0f : static_cast<float>(s.weight_decay);
  const float beta1 = static_cast<float>(s.beta1), new1 = static_cast<float>(1.0 - s.beta1);
  const float beta2 = static_cast<float>(s.beta2), new2 = static_cast<float>(1.0 - s.beta2);
  const float eps = static_cast<float>(s.eps);
  const double bias1 = s.bias_correction ? 1.0 - std::pow(s.beta1, step) : 1.0;
  const double bias2 = s.bias_correction ? 1.0 - std::pow(s.beta2, step) : 1.0;
  const float rate = static_cast<float>(s.lr / bias1);
  const float correction = static_cast<float>(1.0 / std::sqrt(bias2));
  const bool streams = elems * static_cast<std::int64_t>(sizeof(Rounded)) >= kernel::stream_bytes;
  const std::int64_t chunks = (elems + kernel::elem_chunk - 1) / kernel::elem_chunk;
  kernel::for_each(
      ctx, "shardmark::adamw_update", chunks, KOKKOS_LAMBDA(std::int64_t c) {
        const std::int64_t begin = c * kernel::elem_chunk;
        const std::int64_t rest = elems - begin;
        const std::int64_t count = rest < kernel::elem_chunk ? rest : kernel::elem_chunk;
        const float clip = static_cast<float>(*clip_coefficient);
        float *p_ = param + begin, *m_ = m + begin, *v_ = v + begin;
        const Grad* g_ = grad + begin;
        const float k = keep, b1 = beta1, n1 = new1, b2 = beta2, n2 = new2;
        const float e = eps, r = rate, root = correction, d = decay;
        kernel::simd_loop(count, [&](std::int64_t j) {
          const float clipped = widen(g_[j]) * clip;
          const float g = d != 0.0f ? clipped + d * p_[j] : clipped;
          const float m_new = m_[j] * b1 + g * n1;
          const float v_new = v_[j] * b2 + g * g * n2;
          m_[j] = m_new;
          v_[j] = v_new;
          p_[j] = p_[j] * k - r * (m_new / (std::sqrt(v_new) * root + e));
        });
        Rounded* result = rounded;
        const bool past_caches = streams;
        if constexpr (!std::is_same_v<Rounded, NotRounded>)
          round_chunk(count, p_, result + begin, past_caches);
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
