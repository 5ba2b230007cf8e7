// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include <fmt/core.h>

#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/volume.hpp>
#include <core/text.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/charts/text.hpp>
#include <miniapp/predict/prediction.hpp>
#include <miniapp/report/html/charts.hpp>
#include <miniapp/report/html/page.hpp>
#include <miniapp/report/trace_file.hpp>

namespace shardmark {
namespace {

using namespace html;
using Points = std::vector<PredictedPoint>;

// An axis of rank counts, each with its text.
ChartAxis ranks_axis(const Points& points) {
  ChartAxis axis{.unit = "ranks", .log_base = 2};
  for (const PredictedPoint& p : points)
    axis.ticks.push_back({static_cast<double>(p.ranks), std::to_string(p.ranks)});
  axis.low = points.front().ranks, axis.high = points.back().ranks;
  return axis;
}

template<class Value>
Curve curve_of(const Points& points, const char* css, const char* name, const Value& value) {
  Curve curve{css, name, {}};
  for (const PredictedPoint& p : points)
    curve.data.push_back({static_cast<double>(p.ranks), value(p)});
  return curve;
}

// Tokens per second over ranks on logarithmic axes, with the interval of the steps and the line of
// ranks that are all as fast as the first ones.
std::string rate_chart(const Points& points) {
  const PredictedPoint& first = points.front();
  const auto ideal = [&](const PredictedPoint& p) {
    return first.tokens_per_s / first.ranks * p.ranks;
  };
  Chart chart{"Tokens per second over ranks",
              ranks_axis(points),
              {.unit = "tokens/s", .log_base = 10},
              300};
  Curve rates = curve_of(points, "series0", "predicted",
                         [](const PredictedPoint& p) { return p.tokens_per_s; });
  rates.form = Curve::Form::line_and_dots;
  for (std::size_t i = 0; i < points.size(); ++i)
    rates.data[i].title =
        fmt::format("{}: {:.4g} tokens/s, {:.1f} % of the ideal", plural(points[i].ranks, "rank"),
                    points[i].tokens_per_s, 100 * points[i].tokens_per_s / ideal(points[i]));
  chart.curves = {rates,
                  curve_of(points, "series1 predicted", "9 of 10 steps lie between these",
                           [](const PredictedPoint& p) { return p.tokens / p.step_s_high; }),
                  curve_of(points, "series1 predicted", "",
                           [](const PredictedPoint& p) { return p.tokens / p.step_s_low; }),
                  curve_of(points, "series5 predicted",
                           "ideal: every rank as fast as on the fewest ranks", ideal)};
  return titled("Tokens per second", "", to_html(chart));
}

std::string efficiency_chart(const Points& points) {
  const double one = points.front().tokens_per_s / points.front().ranks;
  Curve curve = curve_of(points, "series0", "", [&](const PredictedPoint& p) {
    return one > 0 ? 100 * p.tokens_per_s / p.ranks / one : 0;
  });
  curve.form = Curve::Form::line_and_dots;
  for (std::size_t i = 0; i < points.size(); ++i)
    curve.data[i].title =
        fmt::format("{}: {:.4g} %", plural(points[i].ranks, "rank"), curve.data[i].y);
  const char* title = "Tokens per second and rank, relative to the fewest ranks";
  return titled(title, "", to_html(Chart{title, ranks_axis(points), {"%"}, 260, {}, {}, {curve}}));
}

std::string ms(double seconds) {
  return fmt::format("{:.2f}", seconds * 1e3);
}

std::string steps_table(const Points& points) {
  Table table{"Predicted, per step",
              {"ranks", "step", "9 of 10 within", "tokens/s", "MFU", "limited by"},
              {},
              1,
              1};
  std::string notes;
  for (const PredictedPoint& p : points) {
    if (!p.memory.fits())
      notes += fmt::format("<p class=\"bad\">{}: {}.</p>\n", plural(p.ranks, "rank"),
                           escape(p.memory.shortfall()));
    if (!p.timed) {
      table.rows.push_back({std::to_string(p.ranks), "does not fit", "", "", "", ""});
      continue;
    }
    if (const std::string tight = p.memory.tightness(); !tight.empty())
      notes += fmt::format("<p>{}: {}.</p>\n", plural(p.ranks, "rank"), escape(tight));
    table.rows.push_back({std::to_string(p.ranks), duration(p.step_s),
                          fmt::format("{} to {}", duration(p.step_s_low), duration(p.step_s_high)),
                          four_digits(p.tokens_per_s),
                          p.mfu ? fmt::format("{:.1f} %", *p.mfu * 100) : std::string("–"),
                          p.limited_by()});
  }
  return to_html(table) + notes;
}

std::string phases_table(const Points& points) {
  Table table{"Parts of a step, ms on rank 0; copies are between device, host and disk",
              {"ranks", "forward", "backward", "optimizer", "copies", "exposed communication"},
              {}};
  for (const PredictedPoint& p : points)
    table.rows.push_back({std::to_string(p.ranks), ms(p.priced.phase_s[Phase::forward]),
                          ms(p.priced.phase_s[Phase::backward]), ms(p.priced.phase_s[Phase::step]),
                          ms(p.priced.copies_s), ms(p.priced.exposed_s)});
  return to_html(table);
}

// The memory of a tier over the ranks at the peak of rank 0, with the budget if all have one.
Chart memory_bars(const Points& points, const std::vector<Footprint>& needs, Tier tier) {
  double most = 0;
  for (const Footprint& need : needs) most = std::max<double>(most, need[tier].peak_bytes);
  if (!(most > 0)) return {};
  const ByteUnit unit = byte_unit(most);
  Chart chart{fmt::format("Memory of the {} over ranks", to_string(tier)),
              {.unit = "ranks"},
              {.unit = unit.name}};
  for (std::size_t i = 0; i < points.size(); ++i)
    chart.bars.push_back(
        {std::to_string(points[i].ranks),
         {{category_parts(needs[i][tier].at_peak, unit.bytes, plural(points[i].ranks, "rank")),
           points[i].memory.tiers[tier].missing > 0}}});
  const auto& budget = points.front().memory.budgets[tier];
  if (budget && std::ranges::all_of(points, [&](const PredictedPoint& p) {
        return p.memory.budgets[tier] == budget;
      }))
    chart.levels = {{static_cast<double>(*budget) / unit.bytes, "limit",
                     fmt::format("budget: {}", human_bytes(*budget))}};
  return chart;
}

std::string memory_section(const Points& points) {
  std::vector<Footprint> needs;
  for (const PredictedPoint& p : points) needs.push_back(footprint(p.program));
  std::string text = "<h2>Memory</h2>\n";
  for (const Tier t : all_values<Tier>) text += to_html(memory_bars(points, needs, t));
  Table table{
      "Bytes of rank 0 at its peak; allocated and missing are those of the rank that needs most",
      {"ranks", "tier", "states", "activations", "buffers", "workspaces", "live peak", "allocated",
       "budget", "missing"},
      {},
      2,
      0,
      "dense"};
  for (std::size_t i = 0; i < points.size(); ++i)
    for (const Tier t : all_values<Tier>) {
      const MemoryFit& fit = points[i].memory;
      if (needs[i][t].peak_bytes == 0) continue;
      std::vector<std::string> row{std::to_string(points[i].ranks), std::string(to_string(t))};
      for (const MemoryKind& kind : memory_kinds)
        row.push_back(human_bytes(kind.bytes(needs[i][t].at_peak)));
      row.push_back(human_bytes(needs[i][t].peak_bytes));
      row.push_back(human_bytes(fit.tiers[t].bytes));
      row.push_back(fit.budgets[t] ? human_bytes(*fit.budgets[t]) : "unknown");
      row.push_back(fit.tiers[t].missing > 0
                        ? "<strong class=\"bad\">" + human_bytes(fit.tiers[t].missing) + "</strong>"
                        : "–");
      table.rows.push_back(std::move(row));
    }
  return text + to_html(table);
}

std::string volume_section(const Points& points) {
  Table table{"Sent by rank 0 per step; an all_reduce counts twice in elements per parameter",
              {"ranks", "elements per parameter", "collective", "calls", "bytes"},
              {}};
  for (const PredictedPoint& p : points) {
    const Volume volume = steady_volume(p.program);
    std::vector<std::string> lead{std::to_string(p.ranks),
                                  fmt::format("{:.3f}", volume_per_parameter(p.program, volume))};
    for (const auto& [op, traffic] : volume) {
      if (traffic.elems == 0) continue;
      table.rows.push_back({lead[0], lead[1], std::string(to_string(op)), grouped(traffic.calls),
                            human_bytes(traffic.bytes)});
      lead = {"", ""};
    }
  }
  return "<h2>Volume of a step</h2>\n" +
         (table.rows.empty() ? std::string("<p>Nothing is sent.</p>\n") : to_html(table));
}

// The micro-batches of which there are events.
std::int64_t micro_batches(const PredictedPoint& p) {
  const auto begins = [&](const PricedEvent& e) {
    return e.event == 0 && p.program.segments[e.segment].kind == SegmentKind::micro;
  };
  return std::ranges::count_if(p.priced.events, begins);
}

std::string detail(const PredictedPoint& p) {
  std::string text = fmt::format("<h2>{}</h2>\n", plural(p.ranks, "rank"));
  text += to_html(lanes_chart(p.program, predicted_trace(p.program, p.priced)));
  text +=
      "<p>One step of rank 0. The lane of copies holds kernels that only move or convert data, "
      "and copies between device and host.";
  const std::int64_t all = p.program.batch.accumulation;
  if (const auto drawn = micro_batches(p); drawn < all)
    text += fmt::format(
        " {} of the {} micro-batches are drawn: of those that repeat each other, the first two.",
        drawn, all);
  text += "</p>\n<ul>";
  for (const Sensitivity& s : p.sensitivities)
    if (s.gain > 0.001)
      text += fmt::format("<li>10 % faster {}: a step is {:.1f} % shorter.</li>",
                          to_string(s.resource), s.gain * 100);
  for (const std::string& sentence : p.extrapolates)
    text += fmt::format("<li>It extrapolates {}.</li>", escape(sentence));
  return text + "</ul>\n";
}

}  // namespace

std::string prediction_html(const Deck& deck, const Machine& machine, const Points& points,
                            const std::string& next_change) {
  std::string page = fmt::format("<header><h1>{}, predicted</h1>\n<p>On {}.</p>\n",
                                 escape(deck.name), escape(standing(machine)));
  if (!next_change.empty()) page += fmt::format("<p>{}</p>\n", escape(next_change));
  page += "</header>\n" + steps_table(points);
  Points timed;
  std::ranges::copy_if(points, std::back_inserter(timed),
                       [](const PredictedPoint& p) { return p.timed; });
  if (timed.size() > 1) page += rate_chart(timed) + efficiency_chart(timed);
  if (!timed.empty()) page += phases_table(timed);
  page += memory_section(points) + volume_section(points);
  for (const PredictedPoint& p : timed) page += detail(p);
  return document(deck.name + ": predicted by ShardMark", page);
}

}  // namespace shardmark
