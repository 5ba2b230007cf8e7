// SPDX-License-Identifier: Apache-2.0
// fp16's loss scale from step to step, as DeepSpeed moves it (0.19: DynamicLossScaler of
// fp16/loss_scaler.py at stages 1 to 3, _update_scale of fp16/fused_optimizer.py at stage 0). Every
// rank holds one and moves it with the same, reduced overflow flag.
#pragma once

#include <cstdint>

#include <core/plan/deck/deck.hpp>

namespace shardmark {

/// Which of DeepSpeed's two rules. `sharded` (stages 1 to 3): hysteresis counts overflows before
/// the scale is halved, and an overflow at the minimum ends the run. `replicated` (stage 0): every
/// overflow halves, the minimum only bounds; hysteresis is not looked at.
enum class LossScaleRule : std::uint8_t { replicated, sharded };

/// The rule that holds at `stage`.
constexpr LossScaleRule loss_scale_rule(int stage) {
  return stage == 0 ? LossScaleRule::replicated : LossScaleRule::sharded;
}

/// What a scaler carries from step to step.
struct LossScaleState {
  double scale = 1;
  std::int64_t hysteresis = 2;  // overflows left until one halves, that one included
  std::int64_t update = 0, last_overflow = -1;
  bool operator==(const LossScaleState&) const = default;
};

/// Both rules double the scale at the (window + 1)-th update in a row that did not overflow, then
/// at every window-th.
class LossScaler {
 public:
  LossScaler(const LossScaleSpec& spec, LossScaleRule rule)
      : spec_(spec), rule_(rule), state_{spec.initial, spec.hysteresis} {}

  /// What the loss of the next step is multiplied with.
  double scale() const { return state_.scale; }
  /// For checkpoints. Whoever sets it has it from a scaler of the same spec.
  const LossScaleState& state() const { return state_; }
  void restore(const LossScaleState& state) { state_ = state; }

  /// To be called once after each step, skipped or not, with the flag of all ranks.
  void update(bool overflow);

  /// The last update overflowed with the scale at its minimum, under the rule that then gives up:
  /// DeepSpeed raises there, and the scale has not moved. The caller ends the run.
  bool exhausted() const { return exhausted_; }

 private:
  void shrink();

  LossScaleSpec spec_;
  LossScaleRule rule_;
  LossScaleState state_;
  bool exhausted_ = false;
};

}  // namespace shardmark
