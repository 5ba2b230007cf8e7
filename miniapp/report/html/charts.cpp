// SPDX-License-Identifier: Apache-2.0
// The drawings of a run: memory, lanes and losses.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/execute/event_name.hpp>
#include <miniapp/report/html/charts.hpp>

namespace shardmark::html {

namespace {

struct Sample {
  CategoryBytes predicted{};
  double measured = 0;
  Phase phase = Phase::step;
  int micro_batch = 0;
};

std::vector<Sample> samples_of(const Program& p, const StepTrace& trace, Tier tier) {
  std::map<int, std::vector<EnumArray<Tier, CategoryBytes>>> planned;
  std::vector<Sample> samples;
  int micro = -1;
  for (const TracedEvent& t : trace.events) {
    if (t.event < 0) continue;
    const Segment& segment = p.segments[t.segment];
    if (t.event == 0 && segment.kind == SegmentKind::micro) ++micro;
    auto& after = planned[t.segment];
    if (after.empty()) after = live_after(p, t.segment);
    samples.push_back({after[t.event][tier], static_cast<double>(t.held_bytes[tier]),
                       segment.events[t.event].phase, std::max(0, micro)});
  }
  return samples;
}

std::string band_name(const Sample& s, bool numbered) {
  const std::string number = numbered ? fmt::format(" {}", s.micro_batch) : "";
  switch (s.phase) {
    case Phase::forward: return "forward" + number;
    case Phase::backward: return "backward" + number;
    case Phase::step: return "step";
    case Phase::init: break;
  }
  return "start";
}

// The passes. Micro-batches have numbers if there are several.
std::vector<Band> bands_of(const std::vector<Sample>& samples) {
  const bool numbered =
      std::ranges::any_of(samples, [](const Sample& s) { return s.micro_batch > 0; });
  std::vector<Band> bands;
  for (std::size_t begin = 0; begin < samples.size();) {
    const std::string name = band_name(samples[begin], numbered);
    std::size_t end = begin;
    while (end < samples.size() && band_name(samples[end], numbered) == name) ++end;
    bands.push_back(
        {static_cast<double>(begin), static_cast<double>(end), name, bands.size() % 2 == 1});
    begin = end;
  }
  return bands;
}

// One area per category that occurs; their sum is the prediction.
std::vector<Area> stack_of(const std::vector<Sample>& samples, double unit) {
  std::vector<Area> stack;
  for (const Category c : all_values<Category>) {
    const auto has = [c](const Sample& s) { return s.predicted[c] > 0; };
    if (std::ranges::none_of(samples, has)) continue;
    const std::string name(to_string(c));
    Area& area = stack.emplace_back(Area{name, name, {}});
    for (const Sample& s : samples)
      area.heights.push_back(static_cast<double>(s.predicted[c]) / unit);
  }
  return stack;
}

double most_of(const std::vector<Sample>& samples) {
  double most = 0;
  for (const Sample& s : samples)
    most = std::max(
        {most, s.measured,
         static_cast<double>(std::accumulate(s.predicted.begin(), s.predicted.end(), INT64_C(0)))});
  return most;
}

}  // namespace

Chart memory_chart(const Program& p, const Result& r, Tier tier) {
  const std::vector<Sample> samples = samples_of(p, r.trace, tier);
  if (samples.empty()) return {};
  const TierResult& found = r.tiers[tier];
  const bool pooled = p.memory_mode == MemoryMode::pooled;
  const auto arena = static_cast<double>(pooled ? found.measured_peak : 0);
  const double most = std::max(most_of(samples), arena);
  if (!(most > 0)) return {};
  const ByteUnit unit = byte_unit(most);
  const auto end = static_cast<double>(samples.size());
  Chart chart{fmt::format("Live memory of the {} after each event of one step", to_string(tier)),
              {.unit = "event of the step", .low = 0, .high = end, .closest = 1},
              {.unit = unit.name},
              320};
  chart.bands = bands_of(samples);
  chart.stack = stack_of(samples, unit.bytes);
  Curve measured{"measured",
                 pooled ? "measured: held in the arena" : "measured: allocated",
                 {},
                 Curve::Form::steps};
  for (std::size_t i = 0; i < samples.size(); ++i)
    measured.data.push_back({static_cast<double>(i), samples[i].measured / unit.bytes});
  measured.data.push_back({end, measured.data.back().y});
  chart.curves = {std::move(measured)};
  if (pooled) chart.levels.push_back({arena / unit.bytes, "arena", "measured: the arena itself"});
  if (found.budget > 0)
    chart.levels.push_back({static_cast<double>(found.budget) / unit.bytes, "limit",
                            fmt::format("budget: {}", human_bytes(found.budget))});
  return chart;
}

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
  const Event& e = p.segments[t.segment].events[t.event];
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
    const Segment& segment = p.segments[t.segment];
    const Event& e = segment.events[t.event];
    spans.push_back({e.lane == Lane::disk ? disk_row : copy_row, "copy", since(c.begin_ns),
                     since(c.end_ns), event_name(p, e)});
  }
  for (const CollectiveRecord& c : trace.collectives)
    spans.push_back({communication_row, "communication", since(c.issue_ns), since(c.done_ns),
                     fmt::format("{} {}", to_string(c.op), trace.collective_names[c.name])});
  std::ranges::stable_sort(spans, [](const Span& a, const Span& b) {
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
  if (std::ranges::none_of(t.spans, [](const Span& s) { return s.row == disk_row; }))
    t.rows[disk_row].lanes = 0;  // is left out
  if (p.memory_mode == MemoryMode::strict) t.legend.push_back({"allocation", "allocate, free"});
  t.legend.push_back({"copy", "copy, convert"});
  t.legend.push_back({"communication", "collective, from start to end"});
  t.legend.push_back(
      {"waiting", "the compute lane waits for a collective or a copy, or makes it progress"});
  return t;
}

namespace {

// A range around the losses, with some room.
std::pair<double, double> range_of(const std::vector<LossRow>& rows) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const LossRow& r : rows)
    if (std::isfinite(r.loss)) low = std::min(low, r.loss), high = std::max(high, r.loss);
  const double margin = std::max(0.05 * (high - low), 1e-3 * std::max(1.0, std::abs(high)));
  return {low >= 0 ? std::max(0.0, low - margin) : low - margin, high + margin};
}

}  // namespace

Chart loss_chart(const Deck& deck, const Result& r) {
  const auto [low, high] = range_of(r.rows);
  if (!std::isfinite(high - low)) return {};
  const auto first = static_cast<double>(r.rows.front().step);
  const double last = std::max(first + 1, static_cast<double>(r.rows.back().step));
  Chart chart{"Loss over the steps of training",
              {.unit = "step", .low = first, .high = last, .closest = 1},
              {.unit = "loss", .low = low, .high = high},
              280};
  if (const auto warm = std::min(last, static_cast<double>(deck.run.warmup)); warm > first) {
    chart.bands.push_back({first, warm, "warm-up", true, false});
    chart.legend.push_back({"band", "warm-up"});
  }
  Curve loss{"loss", "loss of the global batch", {}};
  Marks skipped{"skipped", "update skipped: gradients overflowed", 9, {}};
  Marks lost{"lost", "loss not finite", 18, {}};
  for (const LossRow& row : r.rows) {
    const auto step = static_cast<double>(row.step);
    loss.data.push_back({step, row.loss});
    if (row.skipped) skipped.at.push_back(step);
    if (!std::isfinite(row.loss)) lost.at.push_back(step);
  }
  const auto end = std::find_if(loss.data.rbegin(), loss.data.rend(),
                                [](const Datum& d) { return std::isfinite(d.y); });
  end->label = fmt::format("{:.4f}", end->y);
  chart.curves = {std::move(loss)};
  chart.marks = {std::move(skipped), std::move(lost)};
  return chart;
}

}  // namespace shardmark::html
