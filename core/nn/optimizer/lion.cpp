// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/nn/optimizer/lion.hpp>
#include <core/nn/optimizer/update_pass.hpp>

namespace shardmark {
namespace {

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

}  // namespace

void lion_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad, float* m,
                 const LionStep& step, const double* clip_coefficient,
                 std::optional<Stored> rounded) {
  update_pass::run<1>(ctx, {"shardmark::lion_update", "shardmark::lion_update_rounding"},
                      {elems, param, {m}}, grad, LionRule(step), clip_coefficient, rounded);
}

}  // namespace shardmark
