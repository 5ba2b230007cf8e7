// SPDX-License-Identifier: Apache-2.0
// Scaling series on a page: speed-up against the ideal line, efficiency, the table and the notes.
#include <algorithm>
#include <cmath>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/report/html/svg.hpp>
#include <miniapp/report/html/text.hpp>
#include <miniapp/tools/compare/scaling.hpp>

namespace shardmark {
namespace {

using html::Tick;

constexpr double linear_span = 8;  // largest ratio of ranks on a linear axis
constexpr double scaling_height = 300;
constexpr double headroom = 1.05;

bool is_logarithmic(const ScalingSeries& s) {
  return s.points.back().ideal > linear_span;
}

// Where a value lies on an axis of the series.
double on_axis(const ScalingSeries& s, double value) {
  return is_logarithmic(s) ? std::log2(value) : value;
}

// A mark at each number of ranks; texts that would overlap are left out.
std::vector<Tick> rank_ticks(const ScalingSeries& s) {
  constexpr double closest = 0.05;  // part of the axis
  const double low = on_axis(s, s.points.front().ranks), high = on_axis(s, s.points.back().ranks);
  std::vector<Tick> ticks;
  double last = -1;
  for (const ScalingPoint& p : s.points) {
    const double at = on_axis(s, p.ranks), part = (at - low) / (high - low);
    const bool clear = part - last >= closest;
    ticks.push_back({at, clear ? std::to_string(p.ranks) : std::string()});
    if (clear) last = part;
  }
  return ticks;
}

// Powers of two between two values, at most eight of them.
std::vector<Tick> power_ticks(double low, double high) {
  constexpr int most = 8;
  const int first = static_cast<int>(std::ceil(low)), last = static_cast<int>(std::floor(high));
  const int stride = std::max(1, (last - first + most) / most);
  std::vector<Tick> ticks;
  for (int power = first; power <= last; power += stride)
    ticks.push_back({static_cast<double>(power), fmt::format("{:.3g}", std::exp2(power))});
  return ticks;
}

html::Frame speedup_frame(html::Svg& svg, const ScalingSeries& s) {
  double least = 1, most = s.points.back().ideal;
  for (const ScalingPoint& p : s.points) {
    least = std::min(least, *p.speedup);
    most = std::max(most, *p.speedup);
  }
  const double x_low = on_axis(s, s.points.front().ranks),
               x_high = on_axis(s, s.points.back().ranks);
  if (!is_logarithmic(s))
    return draw_frame(svg, scaling_height, x_low, x_high, 0, headroom * most, rank_ticks(s),
                      "ranks", "times");
  const double low = std::floor(std::log2(least)), high = std::log2(headroom * most);
  return draw_frame(svg, scaling_height, x_low, x_high, low, high, rank_ticks(s),
                    power_ticks(low, high), "ranks", "times");
}

template<class Value>
void draw_points(html::Svg& svg, const html::Frame& f, const ScalingSeries& s, bool log_y,
                 const Value& value) {
  std::vector<html::Point> curve;
  for (const ScalingPoint& p : s.points)
    curve.push_back({f.x(on_axis(s, p.ranks)), f.y(log_y ? std::log2(value(p)) : value(p))});
  svg.curve(curve, "series0");
  for (std::size_t i = 0; i < curve.size(); ++i)
    svg.dot(curve[i], "series0",
            fmt::format("{}: speed-up {:.3g} of {:.4g}, efficiency {:.1f} %",
                        plural(s.points[i].ranks, "rank"), *s.points[i].speedup, s.points[i].ideal,
                        *s.points[i].efficiency * 100));
}

std::string speedup_chart(const ScalingSeries& s) {
  html::Svg svg(html::half_chart_width, scaling_height, "speed-up over ranks");
  const html::Frame f = speedup_frame(svg, s);
  const ScalingPoint &first = s.points.front(), &last = s.points.back();
  svg.curve({{f.x(on_axis(s, first.ranks)), f.y(on_axis(s, first.ideal))},
             {f.x(on_axis(s, last.ranks)), f.y(on_axis(s, last.ideal))}},
            "series5 predicted");
  draw_points(svg, f, s, is_logarithmic(s), [](const ScalingPoint& p) { return *p.speedup; });
  return "<div><h3>Speed-up</h3>\n" + svg.str() + "</div>\n";
}

std::string efficiency_chart(const ScalingSeries& s) {
  double most = 1;
  for (const ScalingPoint& p : s.points) most = std::max(most, *p.efficiency);
  html::Svg svg(html::half_chart_width, scaling_height, "efficiency over ranks");
  const html::Frame f = draw_frame(svg, scaling_height, on_axis(s, s.points.front().ranks),
                                   on_axis(s, s.points.back().ranks), 0, 100 * headroom * most,
                                   rank_ticks(s), "ranks", "%");
  svg.line({f.left, f.y(100)}, {f.right, f.y(100)}, "series5 ideal");
  draw_points(svg, f, s, false, [](const ScalingPoint& p) { return 100 * *p.efficiency; });
  return "<div><h3>Efficiency</h3>\n" + svg.str() + "</div>\n";
}

std::string series_html_table(const ScalingSeries& s) {
  const std::vector<ScalingRow> rows = scaling_rows(s);
  html::Table table{"", rows.front(), {rows.begin() + 1, rows.end()}, 0};
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
                            {"curve series5", "ideal"}});
    page += "<div class=\"dense\">" + series_html_table(s) + "</div>\n";
    if (s.notes.empty()) continue;
    page += "<ul>\n";
    for (const std::string& note : s.notes) page += "<li>" + html::escape(note) + "</li>\n";
    page += "</ul>\n";
  }
  return page;
}

}  // namespace shardmark
