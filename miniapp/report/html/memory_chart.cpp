// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include <fmt/core.h>

#include <miniapp/report/html/charts.hpp>
#include <miniapp/report/html/svg.hpp>

namespace shardmark::html {
namespace {

constexpr double memory_chart_height = 320;

struct Sample {
  CategoryBytes predicted{};               // of both tiers
  double predicted_sum = 0, measured = 0;  // the same
  Phase phase = Phase::step;
  int micro_batch = 0;
};

void add_predicted(const EnumArray<Tier, CategoryBytes>& live, Sample& sample) {
  for (Tier t : memory_tiers)
    for (const Category c : all_values<Category>) {
      const std::int64_t bytes = live[t][c];
      sample.predicted[c] += bytes;
      sample.predicted_sum += static_cast<double>(bytes);
    }
}

std::vector<Sample> samples_of(const Program& p, const StepTrace& trace) {
  std::map<int, std::vector<EnumArray<Tier, CategoryBytes>>> planned;
  std::vector<Sample> samples;
  int micro = -1;
  for (const TracedEvent& t : trace.events) {
    if (t.event < 0) continue;
    const Segment& segment = p.segments[static_cast<std::size_t>(t.segment)];
    if (t.event == 0 && segment.kind == SegmentKind::micro) ++micro;
    auto& after = planned[t.segment];
    if (after.empty()) after = live_after(p, t.segment);
    Sample& sample = samples.emplace_back();
    add_predicted(after[static_cast<std::size_t>(t.event)], sample);
    for (Tier tier : memory_tiers) sample.measured += static_cast<double>(t.held_bytes[tier]);
    sample.phase = segment.events[static_cast<std::size_t>(t.event)].phase;
    sample.micro_batch = std::max(0, micro);
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

// Draws passes as bands behind the curves, with their names if there is room.
void draw_bands(Svg& svg, const Frame& f, const std::vector<Sample>& samples) {
  constexpr double per_letter = 6.6;
  const bool numbered = std::any_of(samples.begin(), samples.end(),
                                    [](const Sample& s) { return s.micro_batch > 0; });
  bool shaded = false;
  for (std::size_t begin = 0; begin < samples.size(); shaded = !shaded) {
    const std::string name = band_name(samples[begin], numbered);
    std::size_t end = begin;
    while (end < samples.size() && band_name(samples[end], numbered) == name) ++end;
    const double from = f.x(static_cast<double>(begin)), to = f.x(static_cast<double>(end));
    if (shaded) svg.box(from, f.top, to - from, f.bottom - f.top, "band", name);
    if (per_letter * static_cast<double>(name.size()) < to - from)
      svg.text({(from + to) / 2, f.top - 4}, name, Anchor::middle, "unit");
    begin = end;
  }
}

struct Unit {
  double bytes;
  const char* name;
};
Unit unit_for(double bytes) {
  Unit unit{1, "B"};
  for (const char* name : {"KiB", "MiB", "GiB", "TiB"})
    if (bytes >= 2 * unit.bytes * 1024) unit = {unit.bytes * 1024, name};
  return unit;
}

// Draws one area per category on top of the one before; their sum is the prediction. Returns the
// categories that were drawn.
std::vector<LegendEntry> draw_stack(Svg& svg, const Frame& f, const std::vector<Sample>& samples,
                                    double unit) {
  std::vector<Point> sums;
  for (std::size_t i = 0; i < samples.size(); ++i)
    sums.push_back({static_cast<double>(i), samples[i].predicted_sum});
  std::vector<Point> lower, upper;  // by sample that is drawn
  std::vector<const Sample*> kept;
  for (const Point& sum : thinned(sums, 240)) {
    kept.push_back(&samples[static_cast<std::size_t>(sum.x)]);
    lower.push_back({f.x(sum.x), f.y(0)});
  }
  std::vector<LegendEntry> entries;
  std::vector<double> height_bytes(kept.size());
  for (const Category c : all_values<Category>) {
    const auto has = [c](const Sample& s) { return s.predicted[c] > 0; };
    if (std::none_of(samples.begin(), samples.end(), has)) continue;
    upper = lower;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      height_bytes[i] += static_cast<double>(kept[i]->predicted[c]);
      upper[i].y = f.y(height_bytes[i] / unit);
    }
    const std::string_view name = to_string(c);
    svg.area(upper, lower, f.right, name);
    entries.push_back({name, name});
    lower = upper;
  }
  return entries;
}

double sum(const EnumArray<Tier, TierResult>& tiers) {
  double bytes = 0;
  for (Tier t : memory_tiers) bytes += static_cast<double>(tiers[t].measured_peak);
  return bytes;
}

}  // namespace

std::string memory_chart(const Program& p, const Result& r, double width) {
  const std::vector<Sample> samples = samples_of(p, r.trace);
  if (samples.empty()) return {};
  const bool pooled = p.memory_mode == MemoryMode::pooled;
  const double arenas = pooled ? sum(r.tiers) : 0;
  double most = std::max(1.0, arenas);
  for (const Sample& s : samples) most = std::max({most, s.predicted_sum, s.measured});
  const Unit unit = unit_for(most);
  Svg svg(width, memory_chart_height,
          "Live memory after each event of one step, predicted and measured");
  const Frame f = draw_frame(svg, memory_chart_height, 0, static_cast<double>(samples.size()), 0,
                             1.08 * most / unit.bytes, "event of the step", unit.name);
  draw_bands(svg, f, samples);
  std::vector<LegendEntry> entries = draw_stack(svg, f, samples, unit.bytes);
  std::vector<Point> measured;
  for (std::size_t i = 0; i < samples.size(); ++i)
    measured.push_back({f.x(static_cast<double>(i)), f.y(samples[i].measured / unit.bytes)});
  measured.push_back({f.right, measured.back().y});
  svg.curve(thinned(measured, 400), "measured", true);
  entries.push_back({"measured", pooled ? "measured: held in the arenas" : "measured: allocated"});
  if (pooled) {
    const double y = f.y(arenas / unit.bytes);
    svg.line({f.left, y}, {f.right, y}, "arena");
    entries.push_back({"arena", "measured: the arenas themselves"});
  }
  return svg.str() + legend(entries);
}

}  // namespace shardmark::html
