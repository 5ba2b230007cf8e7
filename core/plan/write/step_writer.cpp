// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <map>
#include <string>

#include <core/plan/write/step_writer.hpp>

namespace shardmark {
namespace {

class StepWalk {
 public:
  StepWalk(StepSchedule& schedule, ScheduleContext& context)
      : p_(context.program), w_(context.writer), compute_(context.compute), schedule_(schedule) {}

  void write() {
    segment(SegmentKind::init, schedule_.name_of(SegmentKind::init), Gradients::none,
            Gradients::none, [&] { schedule_.init(); });
    if (p_.extent == Extent::start_up) return;
    place_ = here(0);
    add_step();
    for (std::size_t s = 0; s < p_.steps.size(); ++s) p_.steps[s] = step(static_cast<int>(s));
  }

 private:
  // A place between two segments.
  struct Place {
    int state = 0;
    EndState alive;
  };
  struct Written {
    int segment = -1;
    Place after;
  };

  Place here(int segment) { return {schedule_.note(), p_.segments[segment].exit}; }
  void go_to(const Place& place) {
    place_ = place;
    schedule_.resume(place.state);
  }

  // The step that starts from the present place, which is new unless its state came before.
  int add_step() {
    const auto [it, fresh] =
        step_of_.try_emplace(schedule_.state_key(), static_cast<int>(p_.steps.size()));
    if (fresh) {
      p_.steps.emplace_back();
      starts_.push_back({schedule_.note(), place_.alive});
    }
    return it->second;
  }

  Step step(int s) {
    go_to(starts_[s]);
    Step step;
    write_micros(s, step.micros);
    step.boundary =
        end(SegmentKind::boundary, schedule_.state_key(), after_micros(), Gradients::reduced, [&] {
          if (schedule_.reduces_in_step()) schedule_.reduce_step();
          schedule_.boundary();
        });
    const Place closed{schedule_.note(), place_.alive};
    const auto take_step = [&] {
      step.update = close(closed, SegmentKind::update, [&] { schedule_.update(); });
      step.after_update = add_step();
    };
    const bool skip_first = schedule_.may_skip() && schedule_.lists_skip_first();
    if (!skip_first) take_step();
    if (schedule_.may_skip()) {
      step.skip = close(closed, SegmentKind::skip, [&] { schedule_.skip(); });
      step.after_skip = add_step();
    } else {
      step.after_skip = schedule_.repeats_skipped() ? s : step.after_update;
    }
    if (skip_first) take_step();
    return step;
  }

  // Once a micro-batch starts like an earlier one, everything in between repeats.
  void write_micros(int s, MicroBatches& micros) {
    const std::int64_t count = p_.batch.accumulation;
    const bool last_differs = schedule_.last_micro_differs();
    const std::int64_t alike = last_differs ? count - 1 : count;
    const int special = schedule_.is_special() ? schedule_.special_micros() : 1;
    std::map<std::string, std::int64_t> began;  // the micro-batch that starts from a key
    for (std::int64_t g = 0; g < count;) {
      const std::string key = schedule_.state_key() + (g < special ? "#" + std::to_string(g) : "") +
                              (g >= alike ? "last" : "");
      const auto [it, fresh] = began.try_emplace(key, g);
      const std::int64_t period = g - it->second;
      const std::int64_t times = fresh ? 0 : (alike - g) / period;
      if (times > 0) {
        micros.repeat(period, times);
        g += period * times;
      } else {
        micros.push_back(micro(s, static_cast<int>(g), key));
        ++g;
      }
    }
  }

  int micro(int s, int g, const std::string& key) {
    const MicroBatch micro{g, g == 0, g == p_.batch.accumulation - 1};
    const Gradients between = schedule_.between_micros();
    return once(SegmentKind::micro, key, [&] {
      return segment(SegmentKind::micro, schedule_.micro_name(s, micro),
                     micro.first ? Gradients::none : between, micro.last ? after_micros() : between,
                     [&] { write_micro(micro); });
    });
  }

  void write_micro(const MicroBatch& micro) {
    w_.phase(Phase::forward, micro.index);
    schedule_.begin_micro(micro);
    compute_.begin_micro(micro.index);
    schedule_.forward(micro);
    w_.phase(Phase::backward, micro.index);
    schedule_.begin_backward(micro);
    schedule_.backward(micro);
    compute_.end_micro();
    schedule_.after_backward(micro);
  }

  Gradients after_micros() const {
    return schedule_.reduces_in_step() ? schedule_.between_micros() : Gradients::reduced;
  }

  // An update or a skipped step, and what it leaves to the next step.
  template<class Body>
  int close(const Place& closed, SegmentKind kind, Body body) {
    go_to(closed);
    const int index = end(kind, schedule_.update_key(), Gradients::reduced, Gradients::none, body);
    schedule_.end_step(closed.state, kind == SegmentKind::skip);
    return index;
  }

  template<class Body>
  int end(SegmentKind kind, const std::string& key, Gradients entry, Gradients exit, Body body) {
    return once(kind, key,
                [&] { return segment(kind, schedule_.name_of(kind), entry, exit, body); });
  }

  // Continues after the segment of that kind and key, which `write` writes if there is none yet.
  template<class Write>
  int once(SegmentKind kind, const std::string& key, Write write) {
    std::map<std::string, Written>& known = written_[static_cast<std::size_t>(kind)];
    auto it = known.find(key);
    if (it == known.end()) {
      w_.resume(place_.alive);
      const int index = write();
      it = known.emplace(key, Written{index, here(index)}).first;
    }
    go_to(it->second.after);
    return it->second.segment;
  }

  template<class Body>
  int segment(SegmentKind kind, const std::string& name, Gradients entry, Gradients exit,
              Body body) {
    const int index = w_.begin(kind, name, entry);
    w_.phase(kind == SegmentKind::init ? Phase::init : Phase::step);
    body();
    schedule_.end_segment();
    w_.end(exit);
    return index;
  }

  Program& p_;
  PlanWriter& w_;
  ComputeWriter& compute_;
  StepSchedule& schedule_;
  Place place_;
  std::vector<Place> starts_;           // by step
  std::map<std::string, int> step_of_;  // by the key of the state from which it starts
  std::array<std::map<std::string, Written>, enum_size<SegmentKind>> written_;  // by kind and key
};

}  // namespace

std::span<const Visit> forward_visits(const ModelShape& model) {
  const auto& visits = model.visits;
  return {visits.begin(), std::ranges::find(visits, VisitKind::pre_backward, &Visit::kind)};
}

std::span<const Visit> backward_visits(const ModelShape& model) {
  return std::span(model.visits).subspan(forward_visits(model).size());
}

void StepSchedule::forward(const MicroBatch&) {
  ScheduleContext& to = context();
  for (const int m : to.program.model.computing(VisitKind::pre_forward))
    to.compute.forward(m, places());
}

void StepSchedule::backward(const MicroBatch& micro) {
  for (const int m : context().program.model.computing(VisitKind::pre_backward))
    backward_if_reached(m, micro);
}

void StepSchedule::backward_if_reached(int module, const MicroBatch& micro) {
  ComputeWriter& compute = context().compute;
  if (!reaches(module)) return compute.drop_after_backward(module);
  compute.recompute_before(module, places());
  backward_module(module, micro);
}

void StepSchedule::end_step(int closed, bool skipped) {
  step_ = closed;
  const int now = step_number();
  const int next = skipped && repeats_skipped() ? now : std::min(now + 1, special_steps());
  step_ = next + (skipped && skips_leave_slots() ? special_steps() + 1 : 0);
}

std::string StepSchedule::suffix() const {
  return (is_special() ? ".step" + std::to_string(step_number()) : "") +
         (after_skip() ? ".after_skip" : "");
}

std::string StepSchedule::micro_name(int, const MicroBatch& micro) const {
  const int special = is_special() ? special_micros() : 1;
  const std::string place = micro.first && micro.last ? "only"
                            : micro.first             ? "first"
                            : micro.last              ? "last"
                            : micro.index < special   ? std::to_string(micro.index)
                                                      : "middle";
  return "micro_" + place + suffix();
}

std::string StepSchedule::name_of(SegmentKind kind) {
  return std::string(to_string(kind)) + (kind == SegmentKind::init ? "" : suffix());
}

void write_steps(StepSchedule& schedule) {
  StepWalk(schedule, schedule.context()).write();
}

}  // namespace shardmark
