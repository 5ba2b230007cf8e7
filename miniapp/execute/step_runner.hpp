// SPDX-License-Identifier: Apache-2.0
// Runs segments as optimizer steps: it chooses the next segment, decides whether a step is skipped,
// and computes what changes from step to step (learning rate, loss scale).
#pragma once

#include <functional>
#include <vector>

#include <core/plan/deck/loss_scale.hpp>
#include <core/plan/interpret/copy_volume.hpp>
#include <core/plan/interpret/volume.hpp>
#include <io/checkpoint/manifest.hpp>
#include <miniapp/execute/executor.hpp>

namespace shardmark {

/// Runs a program's start-up and then its optimizer steps, one call per step.
class StepRunner {
 public:
  /// All must outlive it.
  StepRunner(const Deck& deck, const Program& program, Executor& executor);

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

  /// How often each segment has been run.
  const std::vector<std::int64_t>& runs() const { return runs_; }
  /// The collectives that the plan has for the segments that were run, of one group or of all.
  Volume predicted(int group = all_groups) const;
  /// The copies between tiers that the plan has for them.
  LinkVolume predicted_copies() const;
  /// Which segments have been run, for footprint().
  std::vector<bool> ran() const;

 private:
  void run(int segment);

  const Deck& deck_;
  const Program& program_;
  Executor& executor_;
  LossScaler scaler_;
  StepValues values_;
  std::int64_t next_step_ = 0;
  int at_ = 0;  // in Program::steps
  std::vector<std::int64_t> runs_;
};

}  // namespace shardmark
