// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/core.h>

#include <core/text.hpp>
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
    const Segment& segment = p.segments[static_cast<std::size_t>(t.segment)];
    if (t.event == 0 && segment.kind == SegmentKind::micro) ++micro;
    auto& after = planned[t.segment];
    if (after.empty()) after = live_after(p, t.segment);
    samples.push_back(
        {after[static_cast<std::size_t>(t.event)][tier], static_cast<double>(t.held_bytes[tier]),
         segment.events[static_cast<std::size_t>(t.event)].phase, std::max(0, micro)});
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
  const bool numbered = std::any_of(samples.begin(), samples.end(),
                                    [](const Sample& s) { return s.micro_batch > 0; });
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
    if (std::none_of(samples.begin(), samples.end(), has)) continue;
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

}  // namespace shardmark::html
