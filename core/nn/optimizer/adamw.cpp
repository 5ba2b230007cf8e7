// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/optimizer/adamw.hpp>
#include <core/nn/optimizer/update_pass.hpp>

namespace shardmark {
namespace {

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
    const auto step = static_cast<double>(s.step);
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

constexpr update_pass::Labels labels{"shardmark::adamw_update", "shardmark::adamw_update_rounding"};

}  // namespace

void adamw_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad, float* m,
                  float* v, const AdamWStep& s, const double* clip_coefficient,
                  std::optional<Stored> rounded) {
  update_pass::run<2>(ctx, labels, {elems, param, {m, v}}, grad, Coefficients(s), clip_coefficient,
                      rounded);
}

// Nothing of a gradient is added to moments that do not decay. m stands for the gradient, since a
// zero of its own sign leaves the sign of a zero alone.
void adamw_apply(const Context& ctx, std::int64_t elems, float* param, float* m, float* v,
                 const AdamWStep& s) {
  Coefficients c(s);
  c.decay = 0;
  c.beta1 = c.beta2 = 1;
  c.new1 = c.new2 = 0;
  update_pass::run<2>(ctx, labels, {elems, param, {m, v}}, ConstStored(m), c, nullptr, {});
}

}  // namespace shardmark
