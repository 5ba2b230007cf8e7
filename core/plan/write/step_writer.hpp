// SPDX-License-Identifier: Apache-2.0
// The walk that all schedules share: start-up, the micro-batches of a step, its boundary, and its
// update or, if gradients overflowed, the skipped step, each as a segment. A schedule says what
// goes into a segment. Steps differ until the schedule's state repeats, so a step is a path through
// segments, and each segment is written once for every state in which it can begin.
#pragma once

#include <span>
#include <string>
#include <vector>

#include <core/plan/plan.hpp>
#include <core/plan/write/schedule_part.hpp>

namespace shardmark {

/// The visits before the first backward hook, and the others.
std::span<const Visit> forward_visits(const ModelShape& model);
std::span<const Visit> backward_visits(const ModelShape& model);

/// A micro-batch of a step.
struct MicroBatch {
  int index = 0;
  bool first = true, last = true;
};

/// What a schedule puts into the walk. Functions that write do so into the open segment.
class StepSchedule {
 public:
  StepSchedule() = default;
  StepSchedule(const StepSchedule&) = delete;
  StepSchedule& operator=(const StepSchedule&) = delete;
  virtual ~StepSchedule() = default;

  /// What the walk writes, and with what.
  virtual ScheduleContext& context() = 0;
  /// What gradients are between two micro-batches.
  virtual Gradients between_micros() const = 0;
  /// Whether a step whose gradients overflow is skipped.
  virtual bool may_skip() const { return false; }
  /// Whether the end of the accumulation is known only when the step is taken, so that
  /// `reduce_step` comes before the boundary, and not at the end of the last micro-batch.
  virtual bool reduces_in_step() const { return false; }

  virtual void init() = 0;
  /// The beginning of a micro-batch, before what its modules share is acquired.
  virtual void begin_micro(const MicroBatch& /*micro*/) {}
  /// Modules in forward order, unless a schedule that gathers their parameters writes more.
  virtual void forward(const MicroBatch& micro);
  virtual void begin_backward(const MicroBatch& /*micro*/) {}
  /// Modules in backward order, each by `backward_if_reached`.
  virtual void backward(const MicroBatch& micro);
  /// The end of a micro-batch, after what its modules shared is released.
  virtual void after_backward(const MicroBatch& micro) {
    if (micro.last && !reduces_in_step()) reduce_step();
  }
  /// Reduces the gradients of a whole step.
  virtual void reduce_step() {}
  virtual void boundary() {}
  virtual void update() = 0;
  /// Called only if `may_skip`.
  virtual void skip() {}
  /// Called before each segment ends.
  virtual void end_segment() {}
  /// Where a whole parameter lies now.
  virtual Operand whole_param(int /*id*/) const { return {}; }
  ParamPlaces places() const {
    return [this](int id) { return whole_param(id); };
  }
  /// Whether backward reaches a module, and its backward.
  virtual bool reaches(int /*module*/) const { return true; }
  virtual void backward_module(int /*module*/, const MicroBatch& /*micro*/) {}
  /// Writes the backward of a module, after what must run again for it. If backward does not reach
  /// the module, only what its forward kept is dropped.
  void backward_if_reached(int module, const MicroBatch& micro);

  // The state that one segment leaves to the next, apart from the slots that are alive. By default
  // it is the number of the step, up to `special_steps`, and whether the step follows a skipped
  // one.

  /// Equal for two places from which the same events follow.
  virtual std::string state_key() const { return std::to_string(step_); }
  /// The key of the place at which updates and skipped steps begin.
  virtual std::string update_key() const { return state_key(); }
  /// Notes the state and returns a number by which `resume` returns to it.
  virtual int note() { return step_; }
  virtual void resume(int noted) { step_ = noted; }
  /// Moves on from the end of an update or a skipped step to the next step. `closed` was noted at
  /// the end of the boundary.
  virtual void end_step(int closed, bool skipped);

  /// How many steps differ from those that follow them.
  virtual int special_steps() const { return 0; }
  /// How many micro-batches at the start of such a step are unlike those that follow them, apart
  /// from the last one.
  virtual int special_micros() const { return 1; }
  /// Whether the last micro-batch is unlike those before it.
  virtual bool last_micro_differs() const { return true; }
  /// Whether a special step that is skipped comes again.
  virtual bool repeats_skipped() const { return false; }
  /// Whether `skip` leaves slots alive that `update` releases, so that a step after a skipped one
  /// is a step of its own.
  virtual bool skips_leave_slots() const { return false; }

  /// The name of a segment; `step` is an index of Program::steps.
  virtual std::string micro_name(int step, const MicroBatch& micro) const;
  virtual std::string name_of(SegmentKind kind);
  /// Whether the skipped step comes before the update in the program.
  virtual bool lists_skip_first() const { return false; }

  /// Whether the present step is one of the special ones.
  bool is_special() const { return step_number() < special_steps(); }

 private:
  bool after_skip() const { return step_ > special_steps(); }
  int step_number() const { return step_ % (special_steps() + 1); }
  std::string suffix() const;

  int step_ = 0;  // beyond special_steps() after a skipped step
};

/// Writes start-up, and steps until a state comes back.
void write_steps(StepSchedule& schedule);
inline void write_steps(StepSchedule&& schedule) {
  write_steps(schedule);
}

}  // namespace shardmark
