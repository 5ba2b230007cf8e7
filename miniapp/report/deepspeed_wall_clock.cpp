// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include <fmt/core.h>

#include <miniapp/report/deepspeed_wall_clock.hpp>

namespace shardmark {
namespace {

struct Micro {
  double forward = 0, inner = 0, reduce = 0;  // ms
};

struct Times {
  std::vector<Micro> micros;
  double step = 0, gradients = 0, update = 0, gather = 0;  // the last three are parts of the first
};

// The index of the last event of a segment whose kernel is one of those asked for; -1 if there is
// none.
template<class Asked>
int last_of(const Segment& segment, Asked asked) {
  for (int i = static_cast<int>(segment.events.size()) - 1; i >= 0; --i)
    if (asked(segment.events[i].kernel)) return i;
  return -1;
}

// The events at which the parts of a segment end.
struct Bounds {
  int last_backward = -1, last_update = -1, first_gather = 0;  // gather: after the last update
};

int first_gather(const Segment& segment, int after) {
  for (int i = after + 1; i < static_cast<int>(segment.events.size()); ++i)
    if (segment.events[i].op == Op::all_gather) return i;
  return static_cast<int>(segment.events.size());
}

Bounds bounds_of(const Segment& segment) {
  Bounds b{last_of(segment, [](Kernel k) { return k == Kernel::backward; }),
           last_of(segment, is_update)};
  b.first_gather = first_gather(segment, b.last_update);
  return b;
}

void add_micro(const Segment& segment, const Bounds& bounds, int at, double ms, Times& times) {
  Micro& micro = times.micros.back();
  switch (segment.events[at].phase) {
    case Phase::forward: micro.forward += ms; break;
    case Phase::backward: (at <= bounds.last_backward ? micro.inner : micro.reduce) += ms; break;
    default: times.step += ms;
  }
}

void add_step(const Segment& segment, const Bounds& bounds, int at, double ms, Times& times) {
  times.step += ms;
  const bool updates = is_update(segment.events[at].kernel);
  if (bounds.last_update >= 0 && at >= bounds.first_gather)
    times.gather += ms;
  else if (updates || (bounds.last_update >= 0 && at > bounds.last_update))
    times.update += ms;  // and the copies that follow it
  else
    times.gradients += ms;
}

Times times_of(const Program& p, const StepTrace& trace) {
  Times times;
  std::vector<Bounds> bounds;
  for (const Segment& s : p.segments) bounds.push_back(bounds_of(s));
  for (const TracedEvent& t : trace.events) {
    const Segment& segment = p.segments[t.segment];
    const Bounds& parts = bounds[t.segment];
    const int last = static_cast<int>(segment.events.size()) - 1;
    const int at =
        t.event < 0 ? last : t.event;  // the wait at a segment's end counts as its last event
    const double ms = static_cast<double>(t.end_ns - t.begin_ns) * 1e-6;
    if (segment.kind != SegmentKind::micro) {
      add_step(segment, parts, at, ms, times);
      continue;
    }
    if (t.event == 0) times.micros.emplace_back();
    add_micro(segment, parts, at, ms, times);
  }
  return times;
}

using Fields = std::vector<std::pair<const char*, double>>;

std::string line(const Fields& fields) {
  std::string text = "[Rank 0] time (ms)";
  for (const auto& [name, ms] : fields) text += fmt::format(" | {}: {:.2f}", name, ms);
  return text + "\n";
}

std::string optimizer_line(const Program& p, const Times& t) {
  if (!traits(p.schedule).follows_deepspeed || p.stage == 0) return {};
  if (p.stage == 3) return line({{"optimizer_step", t.update}});
  return line({{"optimizer_allgather", t.gather},
               {"optimizer_gradients", t.gradients},
               {"optimizer_step", t.update}});
}

}  // namespace

std::string wall_clock_lines(const Program& p, const StepTrace& trace) {
  const Times times = times_of(p, trace);
  std::string text;
  Micro sum;
  for (std::size_t g = 0; g < times.micros.size(); ++g) {
    const Micro& m = times.micros[g];
    const bool last = g + 1 == times.micros.size();
    if (last) text += optimizer_line(p, times);
    text += line({{"fwd_microstep", m.forward},
                  {"bwd_microstep", m.inner + m.reduce},
                  {"bwd_inner_microstep", m.inner},
                  {"bwd_allreduce_microstep", m.reduce},
                  {"step_microstep", last ? times.step : 0}});
    sum.forward += m.forward;
    sum.inner += m.inner;
    sum.reduce += m.reduce;
  }
  return text + line({{"fwd", sum.forward},
                      {"bwd", sum.inner + sum.reduce},
                      {"bwd_inner", sum.inner},
                      {"bwd_allreduce", sum.reduce},
                      {"step", times.step}});
}

}  // namespace shardmark
