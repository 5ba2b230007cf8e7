// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <string>

#include <core/plan/write/step_writer.hpp>

namespace shardmark {
namespace {

class StepWriter {
 public:
  StepWriter(Program& program, PlanWriter& writer, ComputeWriter& compute, StepSchedule& schedule)
      : p_(program), w_(writer), compute_(compute), schedule_(schedule) {}

  void write() {
    segment(SegmentKind::init, "init", Phase::init, Gradients::none, Gradients::none,
            [&] { schedule_.init(); });
    if (p_.extent == Extent::start_up) return;
    const int special = schedule_.special_steps();
    for (int s = 0; s <= special; ++s) write_step(s, special);
    if (!schedule_.may_skip() || !schedule_.skips_leave_slots()) return;
    for (int s = 0; s <= special; ++s) {
      w_.resume(p_.segments[p_.steps[s].skip].exit);
      write_step(s, special, ".after_skip");
    }
    for (Step& s : p_.steps) s.after_skip += special + 1;
  }

 private:
  void write_step(int s, int special, const std::string& suffix = "") {
    schedule_.begin_step(s);
    suffix_ = (s < special ? ".step" + std::to_string(s) : "") + suffix;
    p_.steps.push_back(step(s < special ? schedule_.special_micros() : 1));
    const int next = std::min(s + 1, special);
    p_.steps.back().after_update = next;
    p_.steps.back().after_skip = schedule_.repeats_skipped() ? s : next;
  }

  // `first` micro-batches have a segment of their own.
  Step step(int first) {
    Step step;
    const auto last = static_cast<int>(p_.batch.accumulation) - 1;
    step.micros.push_back(micro(last == 0 ? "micro_only" : "micro_first", 0));
    int g = 1;
    for (; g < std::min(first, last); ++g)
      step.micros.push_back(micro("micro_" + std::to_string(g), g));
    if (last > g) step.micros.resize(last, micro("micro_middle", g));
    if (last > 0) step.micros.push_back(micro("micro_last", last));
    step.boundary = segment(SegmentKind::boundary, "boundary", Phase::step, after_micros(),
                            Gradients::reduced, [&] {
                              if (schedule_.reduces_in_step()) schedule_.reduce_in_step();
                              schedule_.boundary();
                            });
    const EndState at_boundary = p_.segments[step.boundary].exit;
    step.update = segment(SegmentKind::update, "update", Phase::step, Gradients::reduced,
                          Gradients::none, [&] { schedule_.update(); });
    if (schedule_.may_skip()) {
      w_.resume(at_boundary);
      step.skip = segment(SegmentKind::skip, "skip", Phase::step, Gradients::reduced,
                          Gradients::none, [&] { schedule_.skip(); });
      w_.resume(p_.segments[step.update].exit);
    }
    return step;
  }

  template<class Body>
  int segment(SegmentKind kind, const std::string& name, Phase phase, Gradients entry,
              Gradients exit, Body body) {
    const int index = w_.begin(kind, name + suffix_, entry);
    w_.phase(phase);
    body();
    schedule_.end_segment();
    w_.end(exit);
    return index;
  }

  Gradients after_micros() const {
    return schedule_.reduces_in_step() ? schedule_.between_micros() : Gradients::reduced;
  }

  int micro(const std::string& name, int g) {
    const MicroBatch micro{g, g == 0, g == p_.batch.accumulation - 1};
    const Gradients between = schedule_.between_micros();
    return segment(SegmentKind::micro, name, Phase::forward,
                   micro.first ? Gradients::none : between, micro.last ? after_micros() : between,
                   [&] {
                     w_.phase(Phase::forward, g);
                     compute_.begin_micro(g);
                     schedule_.forward(micro);
                     w_.phase(Phase::backward, g);
                     schedule_.backward(micro);
                     compute_.end_micro();
                     schedule_.after_backward(micro);
                   });
  }

  Program& p_;
  PlanWriter& w_;
  ComputeWriter& compute_;
  StepSchedule& schedule_;
  std::string suffix_;  // of the names of a special step's segments
};

}  // namespace

void write_steps(Program& program, PlanWriter& writer, ComputeWriter& compute,
                 StepSchedule& schedule) {
  StepWriter(program, writer, compute, schedule).write();
}

}  // namespace shardmark
