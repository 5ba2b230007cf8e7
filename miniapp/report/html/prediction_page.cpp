// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/charts/table.hpp>
#include <miniapp/charts/text.hpp>
#include <miniapp/report/html/charts.hpp>
#include <miniapp/report/html/prediction_page.hpp>
#include <miniapp/report/predicted_trace.hpp>

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

std::string table_of(const Points& points) {
  Table table{"Predicted, per step; phases in milliseconds",
              {"ranks", "step", "9 of 10 within", "tokens/s", "MFU", "forward", "backward",
               "optimizer", "copies", "exposed", "limited by"},
              {},
              1,
              1};
  std::string notes;
  const auto ms = [](double s) { return fmt::format("{:.2f}", s * 1e3); };
  for (const PredictedPoint& p : points) {
    if (!p.timed) {
      table.rows.push_back(
          {std::to_string(p.ranks), "does not fit", "", "", "", "", "", "", "", "", ""});
      notes += fmt::format("<p class=\"bad\">{}: {}.</p>\n", plural(p.ranks, "rank"),
                           escape(p.memory.shortfall()));
      continue;
    }
    if (const std::string tight = p.memory.tightness(); !tight.empty())
      notes += fmt::format("<p>{}: {}.</p>\n", plural(p.ranks, "rank"), escape(tight));
    table.rows.push_back({std::to_string(p.ranks), duration(p.step_s),
                          fmt::format("{} to {}", duration(p.step_s_low), duration(p.step_s_high)),
                          four_digits(p.tokens_per_s),
                          p.mfu ? fmt::format("{:.1f} %", *p.mfu * 100) : std::string("–"),
                          ms(p.priced.phase_s[Phase::forward]),
                          ms(p.priced.phase_s[Phase::backward]), ms(p.priced.phase_s[Phase::step]),
                          ms(p.priced.copies_s), ms(p.priced.exposed_s), p.limited_by()});
  }
  return to_html(table) + notes;
}

std::string detail(const PredictedPoint& p) {
  std::string text = fmt::format("<h2>{}</h2>\n", plural(p.ranks, "rank"));
  text += to_html(lanes_chart(p.program, predicted_trace(p.program, p.priced)));
  text +=
      "<p>One step of rank 0 as it is predicted. Micro-batches that repeat are drawn twice at "
      "most.</p>\n<ul>";
  for (const Sensitivity& s : p.sensitivities)
    if (s.gain > 0.001)
      text += fmt::format("<li>10 % faster {}: a step is {:.1f} % shorter.</li>",
                          to_string(s.resource), s.gain * 100);
  for (const std::string& sentence : p.extrapolates)
    text += fmt::format("<li>It extrapolates {}.</li>", escape(sentence));
  return text + "</ul>\n";
}

}  // namespace

std::string prediction_html(const Deck& deck, const Machine& machine, const Points& points) {
  std::string page = fmt::format("<header><h1>{}, predicted</h1>\n<p>On {}.</p>\n</header>\n",
                                 escape(deck.name), escape(standing(machine)));
  page += table_of(points);
  Points timed;
  std::copy_if(points.begin(), points.end(), std::back_inserter(timed),
               [](const PredictedPoint& p) { return p.timed; });
  if (timed.size() > 1) page += rate_chart(timed) + efficiency_chart(timed);
  for (const PredictedPoint& p : timed) page += detail(p);
  return document(deck.name + ": predicted by ShardMark", page);
}

}  // namespace shardmark
