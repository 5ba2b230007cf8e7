// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <miniapp/execute/event_name.hpp>
#include <miniapp/report/html/charts.hpp>

namespace shardmark::html {
namespace {

enum Row : std::size_t { kernel_row, copy_row, disk_row, communication_row, waiting_row };

const char* phase_css(Phase phase) {
  return phase == Phase::forward ? "forward" : phase == Phase::backward ? "backward" : "step";
}

// An event waits first; the rest of its time is work.
void add_event(const Program& p, const TracedEvent& t, double begin, std::vector<Span>& spans) {
  const double wait = static_cast<double>(t.exposed_ns) * 1e-9;
  const double end = begin + static_cast<double>(t.end_ns - t.begin_ns) * 1e-9;
  if (wait > 0) spans.push_back({waiting_row, "waiting", begin, begin + wait, "waiting"});
  if (t.event < 0) return;
  const Event& e =
      p.segments[static_cast<std::size_t>(t.segment)].events[static_cast<std::size_t>(t.event)];
  if (is_collective(e.op) || e.op == Op::copy) return;
  const bool memory = e.op == Op::acquire || e.op == Op::release;
  const char* css = memory ? "allocation" : moves_data(e) ? "copy" : phase_css(e.phase);
  spans.push_back(
      {moves_data(e) ? copy_row : kernel_row, css, begin + wait, end, event_name(p, e)});
}

std::vector<Span> spans_of(const Program& p, const StepTrace& trace, std::int64_t start_ns) {
  const auto since = [&](std::int64_t ns) { return static_cast<double>(ns - start_ns) * 1e-9; };
  std::vector<Span> spans;
  for (const TracedEvent& t : trace.events) add_event(p, t, since(t.begin_ns), spans);
  for (const TracedCopy& c : trace.copies) {
    const TracedEvent& t = trace.events[c.event];
    const Segment& segment = p.segments[static_cast<std::size_t>(t.segment)];
    const Event& e = segment.events[static_cast<std::size_t>(t.event)];
    spans.push_back({e.lane == Lane::disk ? disk_row : copy_row, "copy", since(c.begin_ns),
                     since(c.end_ns), event_name(p, e)});
  }
  for (const CollectiveRecord& c : trace.collectives)
    spans.push_back({communication_row, "communication", since(c.issue_ns), since(c.done_ns),
                     fmt::format("{} {}", to_string(c.op),
                                 trace.collective_names[static_cast<std::size_t>(c.name)])});
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.row, a.begin) < std::pair(b.row, b.begin);
  });
  return spans;
}

}  // namespace

TimeLine lanes_chart(const Program& p, const StepTrace& trace) {
  if (trace.events.empty()) return {};
  const std::int64_t start_ns = trace.events.front().begin_ns;
  TimeLine t{"One step over time: kernels, copies, communication, waiting",
             static_cast<double>(trace.events.back().end_ns - start_ns) * 1e-9,
             {{"kernels"}, {"copies"}, {"disk"}, {"communication", 3}, {"waiting"}},
             spans_of(p, trace, start_ns),
             {{"forward", "forward"}, {"backward", "backward"}, {"step", "step"}}};
  if (std::none_of(t.spans.begin(), t.spans.end(), [](const Span& s) { return s.row == disk_row; }))
    t.rows[disk_row].lanes = 0;  // is left out
  if (p.memory_mode == MemoryMode::strict) t.legend.push_back({"allocation", "allocate, free"});
  t.legend.push_back({"copy", "copy, convert"});
  t.legend.push_back({"communication", "collective, from start to end"});
  t.legend.push_back(
      {"waiting", "the compute lane waits for a collective or a copy, or makes it progress"});
  return t;
}

}  // namespace shardmark::html
