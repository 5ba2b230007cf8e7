// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/execute/event_name.hpp>
#include <miniapp/report/html/charts.hpp>
#include <miniapp/report/html/svg.hpp>
#include <miniapp/report/html/text.hpp>

namespace shardmark::html {
namespace {

// The colours of spans, and the rows in which spans are drawn.
enum class Kind { forward, backward, step, copy, allocation, communication, waiting };
constexpr std::array<const char*, 7> css{"forward",    "backward",      "step",   "copy",
                                         "allocation", "communication", "waiting"};
enum class Row { kernels, copies, disk, communication, waiting };
constexpr std::array<const char*, 5> row_names{"kernels", "copies", "disk", "communication",
                                               "waiting"};

struct Span {
  Row row;
  Kind kind;
  double begin = 0, end = 0;  // s from the start of the step
  std::string name;
  int merged = 1;
};

Kind phase_kind(Phase phase) {
  return phase == Phase::forward    ? Kind::forward
         : phase == Phase::backward ? Kind::backward
                                    : Kind::step;
}

// An event waits first; the rest of its time is work.
void add_event(const Program& p, const TracedEvent& t, double begin, std::vector<Span>& spans) {
  const double wait = static_cast<double>(t.exposed_ns) * 1e-9;
  const double end = begin + static_cast<double>(t.end_ns - t.begin_ns) * 1e-9;
  if (wait > 0) spans.push_back({Row::waiting, Kind::waiting, begin, begin + wait, "waiting"});
  if (t.event < 0) return;
  const Event& e =
      p.segments[static_cast<std::size_t>(t.segment)].events[static_cast<std::size_t>(t.event)];
  if (is_collective(e.op) || e.op == Op::copy) return;
  const bool memory = e.op == Op::acquire || e.op == Op::release;
  spans.push_back({moves_data(e) ? Row::copies : Row::kernels,
                   memory          ? Kind::allocation
                   : moves_data(e) ? Kind::copy
                                   : phase_kind(e.phase),
                   begin + wait, end, event_name(p, e)});
}

std::vector<Span> spans_of(const Program& p, const StepTrace& trace, std::int64_t start_ns) {
  const auto since = [&](std::int64_t ns) { return static_cast<double>(ns - start_ns) * 1e-9; };
  std::vector<Span> spans;
  for (const TracedEvent& t : trace.events) add_event(p, t, since(t.begin_ns), spans);
  for (const TracedCopy& c : trace.copies) {
    const TracedEvent& t = trace.events[c.event];
    const Segment& segment = p.segments[static_cast<std::size_t>(t.segment)];
    const Event& e = segment.events[static_cast<std::size_t>(t.event)];
    spans.push_back({e.lane == Lane::disk ? Row::disk : Row::copies, Kind::copy, since(c.begin_ns),
                     since(c.end_ns), event_name(p, e)});
  }
  for (const CollectiveRecord& c : trace.collectives)
    spans.push_back({Row::communication, Kind::communication, since(c.issue_ns), since(c.done_ns),
                     fmt::format("{} {}", to_string(c.op),
                                 trace.collective_names[static_cast<std::size_t>(c.name)])});
  std::stable_sort(spans.begin(), spans.end(), [](const Span& a, const Span& b) {
    return std::pair(a.row, a.begin) < std::pair(b.row, b.begin);
  });
  return spans;
}

// Merges a span into the one before if they start at the same place of the drawing; the longer one
// gives name and colour. So a row has no more spans than places.
std::vector<Span> merged(const std::vector<Span>& spans, double least) {
  std::vector<Span> list;
  double longest = 0;  // of the spans that the last one was merged from
  for (const Span& s : spans) {
    const double length = s.end - s.begin;
    if (list.empty() || list.back().row != s.row || s.begin - list.back().begin >= least) {
      list.push_back(s);
      longest = length;
      continue;
    }
    Span& into = list.back();
    into.end = std::max(into.end, s.end);
    ++into.merged;
    if (length <= longest) continue;
    longest = length;
    into.kind = s.kind;
    into.name = s.name;
  }
  return list;
}

constexpr double row_height = 26, gap = 10;
constexpr double plot_left = 124, plot_beside = 16, plot_top = 8;

// Collectives that are in flight at the same time share the height of the row.
double lane_of(std::vector<double>& busy_until, const Span& s) {
  for (std::size_t i = 0; i < busy_until.size(); ++i)
    if (busy_until[i] <= s.begin) {
      busy_until[i] = s.end;
      return static_cast<double>(i);
    }
  busy_until.back() = std::max(busy_until.back(), s.end);
  return static_cast<double>(busy_until.size() - 1);
}

bool has_disk(const std::vector<Span>& spans) {
  return std::any_of(spans.begin(), spans.end(), [](const Span& s) { return s.row == Row::disk; });
}

double draw_rows(Svg& svg, const std::vector<Span>& spans, const Scale& x) {
  double y = plot_top;
  for (std::size_t row = 0; row < row_names.size(); ++row) {
    if (static_cast<Row>(row) == Row::disk && !has_disk(spans)) continue;
    const bool comm = static_cast<Row>(row) == Row::communication;
    std::vector<double> busy(comm ? 3 : 1, -1);
    const double height = comm ? 2 * row_height : row_height;
    const double lane = height / static_cast<double>(busy.size());
    svg.text({x.from - 10, y + height / 2 + 4}, row_names[row], Anchor::end);
    svg.box(x.from, y, x.to - x.from, height, "lane");
    for (const Span& s : spans) {
      if (s.row != static_cast<Row>(row)) continue;
      const double from = x(s.begin), to = std::max(x(s.end), from + 0.3);
      const std::string many = s.merged > 1 ? fmt::format(" and {} more", s.merged - 1) : "";
      svg.box(from, y + (comm ? lane_of(busy, s) * lane : 0), to - from, comm ? lane - 1 : height,
              css[static_cast<std::size_t>(s.kind)],
              fmt::format("{}{}: {} at {}", s.name, many, duration(s.end - s.begin),
                          duration(s.begin)));
    }
    y += height + gap;
  }
  return y;
}

}  // namespace

std::string lanes_chart(const Program& p, const Result& r, double width) {
  if (r.trace.events.empty()) return {};
  const std::int64_t start_ns = r.trace.events.front().begin_ns;
  const double length = static_cast<double>(r.trace.events.back().end_ns - start_ns) * 1e-9;
  if (length <= 0) return {};
  const std::vector<Span> spans = spans_of(p, r.trace, start_ns);
  const int rows = has_disk(spans) ? 5 : 4;  // communication has the height of two rows
  const double bottom = plot_top + (rows + 1) * row_height + rows * gap;
  Svg svg(width, bottom + 40, "One step over time: kernels, copies, communication, waiting");
  const double plot_right = width - plot_beside;
  const Scale x{0, length, plot_left, plot_right};
  draw_rows(svg, merged(spans, length / (plot_right - plot_left)), x);
  const bool seconds = length >= 2;
  const double unit = seconds ? 1 : 1e-3;
  const auto values = ticks(0, length / unit, most_columns(width));
  svg.line({plot_left, bottom}, {plot_right, bottom}, "axis");
  for (const double v : values) {
    svg.line({x(v * unit), bottom}, {x(v * unit), bottom + 4}, "axis");
    svg.text({x(v * unit), bottom + 17},
             tick_text(v, values.size() > 1 ? values[1] - values[0] : 1), Anchor::middle);
  }
  svg.text({plot_right, bottom + 34}, seconds ? "s" : "ms", Anchor::end, "unit");
  std::vector<LegendEntry> entries{
      {"forward", "forward"}, {"backward", "backward"}, {"step", "step"}};
  if (p.memory_mode == MemoryMode::strict) entries.push_back({"allocation", "allocate, free"});
  entries.push_back({"copy", "copy, convert"});
  entries.push_back({"communication", "collective, from start to end"});
  entries.push_back(
      {"waiting", "the compute lane waits for a collective or a copy, or makes it progress"});
  return svg.str() + legend(entries);
}

}  // namespace shardmark::html
