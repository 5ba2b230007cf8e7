// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deck/lr_schedule.hpp>
#include <miniapp/execute/step_runner.hpp>

namespace shardmark {

StepRunner::StepRunner(const Deck& deck, const Program& program, Executor& executor)
    : deck_(deck),
      program_(program),
      executor_(executor),
      scaler_(deck.zero.precision.loss_scale, loss_scale_rule(program.stage)),
      runs_(program.segments.size()) {}

void StepRunner::run(int segment) {
  executor_.run(segment, values_);
  ++runs_[segment];
}

void StepRunner::init() {
  run(0);
}

void StepRunner::resume(const TrainingPosition& position, bool same_dtype) {
  next_step_ = position.step;
  values_.updates = position.updates;
  if (same_dtype && deck_.zero.precision.loss_scale.dynamic) scaler_.restore(position.loss_scale);
}

bool StepRunner::step(std::int64_t step, const std::function<void()>& before_update) {
  const Step& s = program_.steps[at_];
  values_.step = step;
  values_.lr = lr_at(deck_.zero.scheduler, deck_.zero.optimizer.lr, values_.updates);
  values_.loss_scale = scaler_.scale();
  values_.micro_batch = 0;
  for (const SegmentRun& micros : s.micros.runs())
    for (std::int64_t t = 0; t < micros.times; ++t)
      for (int segment : micros.segments) {
        run(segment);
        ++values_.micro_batch;
      }
  run(s.boundary);
  if (before_update) before_update();
  const bool skipped = s.skip >= 0 && executor_.overflowed();
  run(skipped ? s.skip : s.update);
  scaler_.update(skipped);
  values_.updates += skipped ? 0 : 1;
  next_step_ = step + 1;
  at_ = skipped ? s.after_skip : s.after_update;
  return !skipped;
}

Volume StepRunner::predicted(int group) const {
  Volume sum;
  for (std::size_t s = 0; s < runs_.size(); ++s) {
    if (runs_[s] == 0) continue;  // so that its operations do not appear with zero calls
    for (auto [op, traffic] : volume(program_.segments[s], group))
      sum[op] += {traffic.calls * runs_[s], traffic.elems * runs_[s], traffic.bytes * runs_[s]};
  }
  return sum;
}

LinkVolume StepRunner::predicted_copies() const {
  LinkVolume sum{};
  for (std::size_t s = 0; s < runs_.size(); ++s)
    add(sum, link_volume(program_.segments[s], runs_[s]));
  return sum;
}

std::vector<bool> StepRunner::ran() const {
  std::vector<bool> marks;
  for (std::int64_t count : runs_) marks.push_back(count > 0);
  return marks;
}

}  // namespace shardmark
