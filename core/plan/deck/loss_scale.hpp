// SPDX-License-Identifier: Apache-2.0
// fp16's loss scale from step to step, as DeepSpeed changes it (0.19: DynamicLossScaler of
// fp16/loss_scaler.py at stages 1 to 3, _update_scale of fp16/fused_optimizer.py at stage 0). Every
// rank has one scaler and updates it with the same, reduced overflow flag.
#pragma once

#include <cstdint>

#include <core/plan/deck/deck.hpp>

namespace shardmark {

/// DeepSpeed's two rules. `sharded` (stages 1 to 3): hysteresis counts overflows before the scale
/// is halved, and an overflow at the minimum ends the run. `replicated` (stage 0): every overflow
/// halves the scale down to the minimum, and hysteresis has no effect.
enum class LossScaleRule : std::uint8_t { replicated, sharded };

/// The rule that holds at `stage`.
constexpr LossScaleRule loss_scale_rule(int stage) {
  return stage == 0 ? LossScaleRule::replicated : LossScaleRule::sharded;
}

/// What a scaler carries from step to step.
struct LossScaleState {
  double scale = 1;
  std::int64_t hysteresis = 2;  // overflows until the scale is halved, that one included
  std::int64_t update = 0, last_overflow = -1;
  bool operator==(const LossScaleState&) const = default;
};

/// Both rules double the scale at the (window + 1)-th update in a row without an overflow, and then
/// at every window-th one.
class LossScaler {
 public:
  LossScaler(const LossScaleSpec& spec, LossScaleRule rule)
      : spec_(spec), rule_(rule), state_{spec.initial, spec.hysteresis} {}

  /// The factor of the loss of the next step.
  double scale() const { return state_.scale; }
  /// For checkpoints. A state that is restored comes from a scaler of the same spec.
  const LossScaleState& state() const { return state_; }
  void restore(const LossScaleState& state) { state_ = state; }

  /// To be called once after each step, skipped or not, with the reduced flag.
  void update(bool overflow);

  /// Whether the last update overflowed with the scale at its minimum, under the rule that then
  /// raises in DeepSpeed. The scale has not changed, and the caller ends the run.
  bool exhausted() const { return exhausted_; }

 private:
  void shrink();

  LossScaleSpec spec_;
  LossScaleRule rule_;
  LossScaleState state_;
  bool exhausted_ = false;
};

}  // namespace shardmark
