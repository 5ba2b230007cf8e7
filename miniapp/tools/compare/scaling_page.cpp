// SPDX-License-Identifier: Apache-2.0
// Scaling series on a page: speed-up against the ideal line, efficiency, the table and the notes.
#include <algorithm>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/charts/chart.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/charts/table.hpp>
#include <miniapp/charts/text.hpp>
#include <miniapp/tools/compare/scaling.hpp>

namespace shardmark {
namespace {

using html::Curve;

constexpr double linear_span = 8;  // largest ratio of ranks on a linear axis
constexpr double headroom = 1.05;

// A chart of a value of each point over the ranks, with a mark at each number of ranks.
template<class Value>
html::Chart over_ranks(const ScalingSeries& s, const char* label, const char* unit,
                       const Value& value) {
  html::Chart chart{label, {.unit = "ranks"}, {.unit = unit}, 300};
  chart.x.log_base = s.points.back().ideal > linear_span ? 2 : 0;
  Curve curve{"series0", "", {}, Curve::Form::line_and_dots};
  for (const ScalingPoint& p : s.points) {
    const auto ranks = static_cast<double>(p.ranks);
    chart.x.ticks.push_back({ranks, std::to_string(p.ranks)});
    curve.data.push_back(
        {ranks, value(p),
         fmt::format("{}: speed-up {:.3g} of {:.4g}, efficiency {:.1f} %", plural(p.ranks, "rank"),
                     *p.speedup, p.ideal, *p.efficiency * 100)});
  }
  chart.x.low = s.points.front().ranks, chart.x.high = s.points.back().ranks;
  chart.curves = {std::move(curve)};
  return chart;
}

std::string speedup_chart(const ScalingSeries& s) {
  html::Chart chart = over_ranks(s, "speed-up over ranks", "times",
                                 [](const ScalingPoint& p) { return *p.speedup; });
  chart.y.log_base = chart.x.log_base;
  Curve ideal{"series5 predicted", "", {}};
  for (const ScalingPoint* p : {&s.points.front(), &s.points.back()})
    ideal.data.push_back({static_cast<double>(p->ranks), p->ideal});
  chart.curves.insert(chart.curves.begin(), std::move(ideal));
  return "<div><h3>Speed-up</h3>\n" + draw(chart, html::half_chart_width) + "</div>\n";
}

std::string efficiency_chart(const ScalingSeries& s) {
  html::Chart chart = over_ranks(s, "efficiency over ranks", "%",
                                 [](const ScalingPoint& p) { return 100 * *p.efficiency; });
  double most = 1;
  for (const ScalingPoint& p : s.points) most = std::max(most, *p.efficiency);
  chart.y.high = 100 * headroom * most;
  chart.levels = {{100, "series5 ideal", ""}};
  return "<div><h3>Efficiency</h3>\n" + draw(chart, html::half_chart_width) + "</div>\n";
}

std::string series_html_table(const ScalingSeries& s) {
  const std::vector<ScalingRow> rows = scaling_rows(s);
  html::Table table{"", rows.front(), {rows.begin() + 1, rows.end()}, 0, 0, "dense"};
  for (std::string& cell : table.head) cell = html::escape(cell);
  for (std::vector<std::string>& row : table.rows)
    for (std::string& cell : row) cell = html::escape(cell);
  return to_html(table);
}

bool has_speedups(const ScalingSeries& s) {
  return std::all_of(s.points.begin(), s.points.end(),
                     [](const ScalingPoint& p) { return p.speedup && *p.speedup > 0; });
}

}  // namespace

std::string scaling_html(const std::vector<ScalingSeries>& list) {
  std::string page;
  for (const ScalingSeries& s : list) {
    page += fmt::format("<h2>Scaling{}{}</h2>\n<p>{}</p>\n", s.name.empty() ? "" : " of ",
                        html::escape(s.name), html::escape(scaling_sentence(s)));
    if (has_speedups(s))
      page += "<div class=\"pair\">\n" + speedup_chart(s) + efficiency_chart(s) + "</div>\n" +
              html::legend({{"curve series0", s.predicted ? "predicted" : "measured"},
                            {"curve series5 ideal", "ideal"}});
    page += series_html_table(s);
    page += html::list(s.notes);
  }
  return page;
}

}  // namespace shardmark
