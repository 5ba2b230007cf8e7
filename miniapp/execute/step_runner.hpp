// SPDX-License-Identifier: Apache-2.0
// Strings segments together into optimizer steps: which segment comes next, whether a step is
// skipped, and what changes from step to step (learning rate, loss scale).
#pragma once

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
  /// Collective. Runs optimizer step number `step`; false when it was skipped because gradients
  /// overflowed. Throws what Executor::run throws.
  bool step(std::int64_t step);

  /// Where training stands, between two steps.
  TrainingPosition position() const { return {next_step_, values_.updates, scaler_.state()}; }
  /// After init(): as if the steps before `position` had been run here. The loss scale goes on only
  /// where it is of the same type.
  void resume(const TrainingPosition& position, bool same_dtype);

  /// Gradients overflowed with the loss scale at its minimum: DeepSpeed ends the run there.
  bool exhausted() const { return scaler_.exhausted(); }

  /// Learning rate and loss scale of the last step.
  const StepValues& values() const { return values_; }

  /// How often each segment has been run.
  const std::vector<std::int64_t>& runs() const { return runs_; }
  /// What the plan says that all this sends; of one group's collectives, or of all.
  Volume predicted(int group = all_groups) const;
  /// … and copies between host and device.
  LinkVolume predicted_copies() const;
  /// Segments that have been run, for footprint().
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
