// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <iterator>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/report/html/charts.hpp>
#include <miniapp/report/html/prediction_page.hpp>
#include <miniapp/report/html/svg.hpp>
#include <miniapp/report/html/text.hpp>
#include <miniapp/report/predicted_trace.hpp>

namespace shardmark {
namespace {

using namespace html;
using Points = std::vector<PredictedPoint>;

// A curve over the ranks, which are spread evenly by their logarithm.
template<class Value>
std::string over_ranks(const Points& points, const char* title, const char* unit,
                       const Value& value) {
  if (points.size() < 2) return {};
  std::vector<Tick> columns;
  double most = 0;
  for (const PredictedPoint& p : points) {
    columns.push_back({std::log2(p.ranks), std::to_string(p.ranks)});
    most = std::max(most, value(p));
  }
  constexpr double height = 260;
  Svg svg(chart_width, height, title);
  const Frame f = draw_frame(svg, height, columns.front().at, columns.back().at, 0,
                             most > 0 ? 1.1 * most : 1, columns, "ranks", unit);
  std::vector<Point> curve;
  for (const PredictedPoint& p : points) curve.push_back({f.x(std::log2(p.ranks)), f.y(value(p))});
  svg.curve(curve, "series0");
  for (std::size_t i = 0; i < curve.size(); ++i)
    svg.dot(curve[i], "series0",
            fmt::format("{}: {:.4g}", plural(points[i].ranks, "rank"), value(points[i])));
  return fmt::format("<h3>{}</h3>\n", title) + svg.str();
}

// Marks at 1, 2 and 5 times powers of ten between two logarithms to the base of 2.
std::vector<Tick> decade_ticks(double low, double high) {
  std::vector<Tick> marks;
  for (double power = std::pow(10, std::floor(std::log10(std::exp2(low))));
       power <= std::exp2(high); power *= 10)
    for (const double value : {power, 2 * power, 5 * power})
      if (const double at = std::log2(value); at >= low && at <= high)
        marks.push_back({at, value < 1 ? fmt::format("{:.2g}", value)
                                       : grouped(static_cast<std::int64_t>(value))});
  return marks;
}

// Tokens per second over ranks on logarithmic axes, with the interval of the steps and the line of
// ranks that are all as fast as the first ones.
std::string rate_chart(const Points& points) {
  if (points.size() < 2) return {};
  const PredictedPoint &first = points.front(), &last = points.back();
  const auto ideal = [&](const PredictedPoint& p) {
    return first.tokens_per_s / first.ranks * p.ranks;
  };
  std::vector<Tick> columns;
  double least = first.tokens_per_s, most = ideal(last);
  for (const PredictedPoint& p : points) {
    columns.push_back({std::log2(p.ranks), std::to_string(p.ranks)});
    least = std::min(least, p.tokens / p.step_s_high);
    most = std::max(most, p.tokens / p.step_s_low);
  }
  constexpr double height = 300;
  Svg svg(chart_width, height, "Tokens per second over ranks");
  const double low = std::log2(least) - 0.2, high = std::log2(most) + 0.2;
  const Frame f = draw_frame(svg, height, columns.front().at, columns.back().at, low, high, columns,
                             decade_ticks(low, high), "ranks", "tokens/s");
  const auto curve = [&](const auto& value, std::string_view css) {
    std::vector<Point> line;
    for (const PredictedPoint& p : points)
      line.push_back({f.x(std::log2(p.ranks)), f.y(std::log2(value(p)))});
    svg.curve(line, css);
    return line;
  };
  curve(ideal, "series5 predicted");
  curve([](const PredictedPoint& p) { return p.tokens / p.step_s_high; }, "series1 predicted");
  curve([](const PredictedPoint& p) { return p.tokens / p.step_s_low; }, "series1 predicted");
  const std::vector<Point> rates =
      curve([](const PredictedPoint& p) { return p.tokens_per_s; }, "series0");
  for (std::size_t i = 0; i < rates.size(); ++i)
    svg.dot(
        rates[i], "series0",
        fmt::format("{}: {:.4g} tokens/s, {:.1f} % of the ideal", plural(points[i].ranks, "rank"),
                    points[i].tokens_per_s, 100 * points[i].tokens_per_s / ideal(points[i])));
  return "<h3>Tokens per second</h3>\n" + svg.str() +
         legend({{"series0", "predicted"},
                 {"series1", "9 of 10 steps lie between these"},
                 {"series5", "ideal: every rank as fast as on the fewest ranks"}});
}

std::string table_of(const Points& points) {
  Table table{"Predicted, per step; phases in milliseconds",
              {"ranks", "step", "9 of 10 within", "tokens/s", "MFU", "forward", "backward",
               "optimizer", "copies", "exposed", "limited by"},
              {},
              1,
              1};
  std::string unfit;
  const auto ms = [](double s) { return fmt::format("{:.2f}", s * 1e3); };
  for (const PredictedPoint& p : points) {
    if (!p.timed) {
      table.rows.push_back(
          {std::to_string(p.ranks), "does not fit", "", "", "", "", "", "", "", "", ""});
      unfit += fmt::format("<p class=\"bad\">{}: {}.</p>\n", plural(p.ranks, "rank"),
                           escape(p.memory.shortfall()));
      continue;
    }
    table.rows.push_back({std::to_string(p.ranks), duration(p.step_s),
                          fmt::format("{} to {}", duration(p.step_s_low), duration(p.step_s_high)),
                          fmt::format("{:.4g}", p.tokens_per_s),
                          p.mfu ? fmt::format("{:.1f} %", *p.mfu * 100) : std::string("–"),
                          ms(p.priced.phase_s[Phase::forward]),
                          ms(p.priced.phase_s[Phase::backward]), ms(p.priced.phase_s[Phase::step]),
                          ms(p.priced.copies_s), ms(p.priced.exposed_s), p.limited_by()});
  }
  return to_html(table) + unfit;
}

std::string detail(const PredictedPoint& p) {
  std::string text = fmt::format("<h2>{}</h2>\n", plural(p.ranks, "rank"));
  Result result;
  result.trace = predicted_trace(p.program, p.priced);
  text += at_both_widths([&](double width) { return lanes_chart(p.program, result, width); });
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
  page += rate_chart(timed);
  page += over_ranks(timed, "Tokens per second and rank, relative to the fewest ranks", "%",
                     [&](const PredictedPoint& p) {
                       const PredictedPoint& first = timed.front();
                       const double one = first.tokens_per_s / first.ranks;
                       return one > 0 ? 100 * p.tokens_per_s / p.ranks / one : 0;
                     });
  for (const PredictedPoint& p : timed) page += detail(p);
  return document(deck.name + ": predicted by ShardMark", page);
}

}  // namespace shardmark
