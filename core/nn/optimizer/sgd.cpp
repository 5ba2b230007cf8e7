// SPDX-License-Identifier: Apache-2.0
#include <core/nn/optimizer/sgd.hpp>
#include <core/nn/optimizer/update_pass.hpp>

namespace shardmark {
namespace {

struct SgdRule {
  explicit SgdRule(const SgdStep& s)
      : lr(static_cast<float>(s.lr)),
        decay(static_cast<float>(s.weight_decay)),
        old(s.step == 1 ? 0.0f : static_cast<float>(s.momentum)),
        fresh(s.step == 1 ? 1.0f : static_cast<float>(1.0 - s.dampening)),
        ahead(s.nesterov ? static_cast<float>(s.momentum) : 0.0f),
        nesterov(s.nesterov) {}

  KOKKOS_INLINE_FUNCTION float decayed(float param, float clipped) const {
    return decay != 0.0f ? clipped + decay * param : clipped;
  }
  KOKKOS_INLINE_FUNCTION float step(float param, float clipped) const {
    return param - lr * decayed(param, clipped);
  }
  KOKKOS_INLINE_FUNCTION float step(float param, float clipped, float& m) const {
    const float g = decayed(param, clipped);
    m = m * old + g * fresh;
    return param - lr * (nesterov ? g + ahead * m : m);
  }

  float lr, decay, old, fresh, ahead;
  bool nesterov;
};

}  // namespace

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
