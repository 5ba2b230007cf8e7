// SPDX-License-Identifier: Apache-2.0
// The skeleton of a schedule: start-up, the micro-batches of a step, and its end, each as a
// segment. The first steps may differ from the others. DeepSpeed's stage 3 does without it
// (core/plan/deepspeed/stage3/README.md says why).
#pragma once

#include <core/plan/plan.hpp>
#include <core/plan/write/compute_writer.hpp>
#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

/// A micro-batch of a step.
struct MicroBatch {
  int index = 0;
  bool first = true, last = true;
};

/// What a schedule puts into the skeleton. Each function writes events into the open segment.
class StepSchedule {
 public:
  virtual ~StepSchedule() = default;

  /// What gradients are between two micro-batches.
  virtual Gradients between_micros() const = 0;
  /// Whether a step whose gradients overflow is skipped.
  virtual bool may_skip() const = 0;

  virtual void init() = 0;
  /// Called before what follows is written for a step. `step` counts the special ones; the last one
  /// is the step that follows itself. Each comes twice if skips leave slots.
  virtual void begin_step(int /*step*/) {}
  virtual void forward(const MicroBatch& micro) = 0;
  virtual void backward(const MicroBatch& micro) = 0;
  /// The end of a micro-batch, after what its modules shared is released.
  virtual void after_backward(const MicroBatch& /*micro*/) {}
  virtual void boundary() = 0;
  virtual void update() = 0;
  /// Whether the end of the accumulation is known only when the step is taken, so that what the
  /// last micro-batch would reduce is reduced by `reduce_in_step`, before the boundary.
  virtual bool reduces_in_step() const { return false; }
  virtual void reduce_in_step() {}
  /// Called only if `may_skip`.
  virtual void skip() {}
  /// Called before each segment ends.
  virtual void end_segment() {}

  /// How many steps differ from those that follow them. Each is written by itself.
  virtual int special_steps() const { return 0; }
  /// How many micro-batches at the start of such a step are unlike those that follow them, apart
  /// from the last one.
  virtual int special_micros() const { return 1; }
  /// Whether a special step that is skipped comes again.
  virtual bool repeats_skipped() const { return false; }
  /// Whether `skip` leaves slots alive that `update` releases, so that a step after a skipped one
  /// is a step of its own.
  virtual bool skips_leave_slots() const { return false; }
};

/// Writes start-up, the special steps, and one more step, which follows itself.
void write_steps(Program& program, PlanWriter& writer, ComputeWriter& compute,
                 StepSchedule& schedule);

}  // namespace shardmark
