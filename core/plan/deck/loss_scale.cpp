// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/deck/loss_scale.hpp>

namespace shardmark {
namespace {

constexpr double factor = 2.0;

}  // namespace

void LossScaler::shrink() {
  const bool sharded = rule_ == LossScaleRule::sharded;
  if (sharded && state_.hysteresis != 1) {
    --state_.hysteresis;
    return;
  }
  exhausted_ = sharded && state_.scale == spec_.min_scale;
  if (!exhausted_) state_.scale = std::max(state_.scale / factor, spec_.min_scale);
}

void LossScaler::update(bool overflow) {
  if (!spec_.dynamic) return;
  exhausted_ = false;
  if (overflow) {
    shrink();
    state_.last_overflow = state_.update;
  } else {
    if (spec_.consecutive_hysteresis) state_.hysteresis = spec_.hysteresis;
    const std::int64_t stable = state_.update - state_.last_overflow - 1;
    if (stable > 0 && stable % spec_.window == 0) {
      state_.hysteresis = spec_.hysteresis;
      state_.scale *= factor;
    }
  }
  ++state_.update;
}

}  // namespace shardmark
