// SPDX-License-Identifier: Apache-2.0
// Runs segments as optimizer steps: it chooses the next segment, decides whether a step is skipped,
// and computes what changes from step to step (learning rate, loss scale).
#pragma once

#include <functional>

#include <core/plan/deck/loss_scale.hpp>
#include <io/checkpoint/manifest.hpp>
#include <miniapp/execute/executor.hpp>
#include <miniapp/ranks/faults.hpp>

namespace shardmark {

/// Runs a program's start-up and then its optimizer steps, one call per step.
class StepRunner {
 public:
  /// All must outlive it. Of the faults it makes `repeat_micro` and `wrong_update`.
  StepRunner(const Deck& deck, const Program& program, Executor& executor,
             Fault fault = Fault::none);

  /// Collective. Runs the program's start-up.
  void init();
  /// Collective. Runs optimizer step number `step`; returns false if it was skipped because
  /// gradients overflowed. `before_update` is called when the gradients are complete and nothing is
  /// in flight; it may be empty. Throws what Executor::run throws.
  bool step(std::int64_t step, const std::function<void()>& before_update = {});

  /// The position in training, between two steps.
  TrainingPosition position() const { return {next_step_, values_.updates, scaler_.state()}; }
  /// To be called after init(): continues as if the steps before `position` had been run here. The
  /// loss scale is taken over only if the type of the model is the same.
  void resume(const TrainingPosition& position, bool same_dtype);

  /// Whether gradients overflowed with the loss scale at its minimum, where DeepSpeed ends the run.
  bool exhausted() const { return scaler_.exhausted(); }

  /// Learning rate and loss scale of the last step.
  const StepValues& values() const { return values_; }

 private:
  void set_unscaling();

  const Deck& deck_;
  const Program& program_;
  Executor& executor_;
  Fault fault_;
  LossScaler scaler_;
  StepValues values_;
  std::int64_t next_step_ = 0;
  int at_ = 0;  // in Program::steps
};

}  // namespace shardmark
