// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <core/plan/deck/lr_schedule.hpp>
#include <core/profiling_region.hpp>
#include <miniapp/execute/step_runner.hpp>

namespace shardmark {
namespace {
constexpr std::int64_t repeated_step = 5;  // Fault::repeat_micro
}

StepRunner::StepRunner(const Deck& deck, const Program& program, Executor& executor, Fault fault)
    : deck_(deck),
      program_(program),
      executor_(executor),
      fault_(fault),
      scaler_(deck.zero.precision.loss_scale, loss_scale_rule(program.stage)) {}

void StepRunner::init() {
  executor_.run(0, values_);
}

void StepRunner::resume(const TrainingPosition& position, bool same_dtype) {
  next_step_ = position.step;
  if (position.step > 0) at_ = program_.resumed_step;
  values_.updates = position.updates;
  if (same_dtype && deck_.zero.precision.loss_scale.dynamic) scaler_.restore(position.loss_scale);
}

bool StepRunner::step(std::int64_t step, const std::function<void()>& before_update) {
  const ProfilingRegion region([&] { return "step " + std::to_string(step); });
  const Step& s = program_.steps[at_];
  values_.step = step;
  values_.lr = lr_at(deck_.zero.scheduler, deck_.zero.optimizer.lr, values_.updates);
  values_.adam_lr = adam_lr_at(deck_.zero.scheduler, deck_.zero.optimizer.adam_lr, values_.updates);
  if (fault_ == Fault::wrong_update) values_.lr *= 1.5;
  values_.loss_scale = values_.unscale = scaler_.scale();
  values_.norm_factor = 1;
  values_.micro_batch = 0;
  for (const SegmentRun& micros : s.micros.runs())
    for (std::int64_t t = 0; t < micros.times; ++t)
      for (int segment : micros.segments) {
        executor_.run(segment, values_);
        ++values_.micro_batch;
      }
  if (fault_ == Fault::repeat_micro && step == repeated_step)
    executor_.run(s.micros[s.micros.size() - 1], values_);
  executor_.run(s.boundary, values_);
  if (before_update) before_update();
  const bool skipped = s.skip >= 0 && executor_.overflowed();
  scaler_.update(skipped);
  set_unscaling();
  executor_.run(skipped ? s.skip : s.update, values_);
  values_.updates += skipped ? 0 : 1;
  next_step_ = step + 1;
  at_ = skipped ? s.after_skip : s.after_update;
  return !skipped;
}

// DeepSpeed changes the scale before it divides gradients by it, so a step after which the scale
// doubles halves its gradients. Stages 1 and 2 report the norm by the scale of the loss, the others
// by the new one. At stage 0 only the class for its own Adam divides the norm. Under `ordered`,
// which exists to compare stages and schedules bit by bit, all do alike.
void StepRunner::set_unscaling() {
  if (!traits(program_.schedule).follows_deepspeed) return;
  if (deck_.run.reductions != Reductions::native) return;
  values_.unscale = scaler_.scale();
  if (program_.stage == 1 || program_.stage == 2)
    values_.norm_factor = values_.unscale / values_.loss_scale;
  if (program_.stage == 0 && deck_.zero.optimizer.unfused) values_.norm_factor = values_.unscale;
}

}  // namespace shardmark
