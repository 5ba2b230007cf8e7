// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/optimizer/adagrad.hpp>
#include <core/nn/optimizer/update_pass.hpp>

namespace shardmark {
namespace {

struct AdagradRule {
  explicit AdagradRule(const AdagradStep& s)
      : rate(static_cast<float>(s.lr / (1.0 + static_cast<double>(s.step - 1) * s.lr_decay))),
        decay(static_cast<float>(s.weight_decay)),
        eps(static_cast<float>(s.eps)),
        first(static_cast<float>(s.step == 1 ? s.first_accumulator : 0.0)),
        begins(s.step == 1) {}

  KOKKOS_INLINE_FUNCTION float step(float param, float clipped, float& v) const {
    const float g = decay != 0.0f ? clipped + decay * param : clipped;
    const float v_new = (begins ? first : v) + g * g;
    v = v_new;
    return param - rate * (g / (std::sqrt(v_new) + eps));
  }

  float rate, decay, eps, first;
  bool begins;
};

}  // namespace

void adagrad_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad,
                    float* v, const AdagradStep& step, const double* clip_coefficient,
                    std::optional<Stored> rounded) {
  update_pass::run<1>(ctx, {"shardmark::adagrad_update", "shardmark::adagrad_update_rounding"},
                      {elems, param, {v}}, grad, AdagradRule(step), clip_coefficient, rounded);
}

}  // namespace shardmark
