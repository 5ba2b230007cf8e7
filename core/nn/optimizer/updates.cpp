// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/optimizer/update_pass.hpp>
#include <core/nn/optimizer/updates.hpp>

namespace shardmark {
namespace {

// The gradient with a decay of the parameter in it.
KOKKOS_INLINE_FUNCTION float decayed(float clipped, float decay, float param) {
  return decay != 0.0f ? clipped + decay * param : clipped;
}

// The rules for one element, with coefficients in the type in which a step is computed.
struct AdamWRule {
  explicit AdamWRule(const AdamWStep& s)
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
    const float g = decayed(clipped, decay, param);
    const float m_new = m * beta1 + g * new1;
    const float v_new = v * beta2 + g * g * new2;
    m = m_new;
    v = v_new;
    return param * keep - rate * (m_new / (std::sqrt(v_new) * correction + eps));
  }

  float keep, decay, beta1, new1, beta2, new2, eps, rate, correction;
};

constexpr update_pass::Labels adamw_labels{"shardmark::adamw_update",
                                           "shardmark::adamw_update_rounding"};

struct AdagradRule {
  explicit AdagradRule(const AdagradStep& s)
      : rate(static_cast<float>(s.lr / (1.0 + static_cast<double>(s.step - 1) * s.lr_decay))),
        decay(static_cast<float>(s.weight_decay)),
        eps(static_cast<float>(s.eps)),
        first(static_cast<float>(s.step == 1 ? s.first_accumulator : 0.0)),
        begins(s.step == 1) {}

  KOKKOS_INLINE_FUNCTION float step(float param, float clipped, float& v) const {
    const float g = decayed(clipped, decay, param);
    const float v_new = (begins ? first : v) + g * g;
    v = v_new;
    return param - rate * (g / (std::sqrt(v_new) + eps));
  }

  float rate, decay, eps, first;
  bool begins;
};

struct LionRule {
  explicit LionRule(const LionStep& s)
      : keep(static_cast<float>(1.0 - s.lr * s.weight_decay)),
        lr(static_cast<float>(s.lr)),
        beta1(static_cast<float>(s.beta1)),
        new1(static_cast<float>(1.0 - s.beta1)),
        beta2(static_cast<float>(s.beta2)),
        new2(static_cast<float>(1.0 - s.beta2)),
        zero_is_positive(s.zero_is_positive) {}

  KOKKOS_INLINE_FUNCTION float step(float param, float g, float& m) const {
    const float c = m * beta1 + g * new1;
    m = m * beta2 + g * new2;
    const float down = zero_is_positive ? std::copysign(lr, c) : (c > 0.0f ? lr : -lr);
    return param * keep - down;
  }

  float keep, lr, beta1, new1, beta2, new2;
  bool zero_is_positive;
};

struct SgdRule {
  explicit SgdRule(const SgdStep& s)
      : lr(static_cast<float>(s.lr)),
        decay(static_cast<float>(s.weight_decay)),
        old(s.step == 1 ? 0.0f : static_cast<float>(s.momentum)),
        fresh(s.step == 1 ? 1.0f : static_cast<float>(1.0 - s.dampening)),
        ahead(s.nesterov ? static_cast<float>(s.momentum) : 0.0f),
        nesterov(s.nesterov) {}

  KOKKOS_INLINE_FUNCTION float step(float param, float clipped) const {
    return param - lr * decayed(clipped, decay, param);
  }
  KOKKOS_INLINE_FUNCTION float step(float param, float clipped, float& m) const {
    const float g = decayed(clipped, decay, param);
    m = m * old + g * fresh;
    return param - lr * (nesterov ? g + ahead * m : m);
  }

  float lr, decay, old, fresh, ahead;
  bool nesterov;
};

}  // namespace

void adamw_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad, float* m,
                  float* v, const AdamWStep& s, const double* clip_coefficient,
                  std::optional<Stored> rounded) {
  update_pass::run<2>(ctx, adamw_labels, {elems, param, {m, v}}, grad, AdamWRule(s),
                      clip_coefficient, rounded);
}

// Nothing of a gradient is added to moments that do not decay. m stands for the gradient, since a
// zero of its own sign leaves the sign of a zero alone.
void adamw_apply(const Context& ctx, std::int64_t elems, float* param, float* m, float* v,
                 const AdamWStep& s) {
  AdamWRule c(s);
  c.decay = 0;
  c.beta1 = c.beta2 = 1;
  c.new1 = c.new2 = 0;
  update_pass::run<2>(ctx, adamw_labels, {elems, param, {m, v}}, ConstStored(m), c, nullptr, {});
}

void adagrad_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad,
                    float* v, const AdagradStep& step, const double* clip_coefficient,
                    std::optional<Stored> rounded) {
  update_pass::run<1>(ctx, {"shardmark::adagrad_update", "shardmark::adagrad_update_rounding"},
                      {elems, param, {v}}, grad, AdagradRule(step), clip_coefficient, rounded);
}

void lion_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad, float* m,
                 const LionStep& step, const double* clip_coefficient,
                 std::optional<Stored> rounded) {
  update_pass::run<1>(ctx, {"shardmark::lion_update", "shardmark::lion_update_rounding"},
                      {elems, param, {m}}, grad, LionRule(step), clip_coefficient, rounded);
}

void sgd_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad, float* m,
                const SgdStep& step, const double* clip_coefficient,
                std::optional<Stored> rounded) {
  constexpr update_pass::Labels labels{"shardmark::sgd_update", "shardmark::sgd_update_rounding"};
  const SgdRule rule(step);
  if (m == nullptr)
    update_pass::run<0>(ctx, labels, {elems, param, {}}, grad, rule, clip_coefficient, rounded);
  else
    update_pass::run<1>(ctx, labels, {elems, param, {m}}, grad, rule, clip_coefficient, rounded);
}

}  // namespace shardmark
