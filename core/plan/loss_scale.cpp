// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/loss_scale.hpp>

namespace shardmark {
namespace {

constexpr double factor = 2.0;

}  // namespace

void LossScaler::shrink() {
  const bool sharded = rule_ == LossScaleRule::sharded;
  if (sharded && hysteresis_ != 1) {
    --hysteresis_;
    return;
  }
  exhausted_ = sharded && scale_ == spec_.min_scale;
  if (!exhausted_) scale_ = std::max(scale_ / factor, spec_.min_scale);
}

void LossScaler::update(bool overflow) {
  if (!spec_.dynamic) return;
  exhausted_ = false;
  if (overflow) {
    shrink();
    last_overflow_ = update_;
  } else {
    if (spec_.consecutive_hysteresis) hysteresis_ = spec_.hysteresis;
    const std::int64_t stable = update_ - last_overflow_ - 1;
    if (stable > 0 && stable % spec_.window == 0) {
      hysteresis_ = spec_.hysteresis;
      scale_ *= factor;
    }
  }
  ++update_;
}

}  // namespace shardmark
