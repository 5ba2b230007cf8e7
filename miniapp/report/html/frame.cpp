// SPDX-License-Identifier: Apache-2.0
// What all charts share: axes, legend, and a bound on the number of points.
#include <algorithm>

#include <fmt/core.h>

#include <miniapp/report/html/svg.hpp>
#include <miniapp/report/html/text.hpp>

namespace shardmark::html {
namespace {

constexpr double left = 64, beside = 16, top = 34, below = 36;

double distance_of(const std::vector<double>& values) {
  return values.size() > 1 ? values[1] - values[0] : 1;
}

}  // namespace

Frame draw_frame(Svg& svg, double height, double x_low, double x_high, double y_low, double y_high,
                 std::string_view x_unit, std::string_view y_unit) {
  const auto values = ticks(x_low, x_high, most_columns(svg.width()), 1);
  std::vector<Tick> columns;
  for (const double v : values) columns.push_back({v, tick_text(v, distance_of(values))});
  return draw_frame(svg, height, x_low, x_high, y_low, y_high, columns, x_unit, y_unit);
}

Frame draw_frame(Svg& svg, double height, double x_low, double x_high, double y_low, double y_high,
                 const std::vector<Tick>& columns, std::string_view x_unit,
                 std::string_view y_unit) {
  const auto values = ticks(y_low, y_high, 7);
  std::vector<Tick> rows;
  for (const double v : values) rows.push_back({v, tick_text(v, distance_of(values))});
  return draw_frame(svg, height, x_low, x_high, y_low, y_high, columns, rows, x_unit, y_unit);
}

Frame draw_frame(Svg& svg, double height, double x_low, double x_high, double y_low, double y_high,
                 const std::vector<Tick>& columns, const std::vector<Tick>& rows,
                 std::string_view x_unit, std::string_view y_unit) {
  const double bottom = height - below, right = svg.width() - beside;
  Frame f{{x_low, x_high, left, right}, {y_low, y_high, bottom, top}, left, right, top, bottom};
  for (const Tick& row : rows) {
    svg.line({left, f.y(row.at)}, {right, f.y(row.at)}, "grid");
    svg.text({left - 8, f.y(row.at) + 4}, row.text, Anchor::end);
  }
  svg.text({left - 8, top - 16}, y_unit, Anchor::end, "unit");
  for (const Tick& tick : columns) {
    svg.line({f.x(tick.at), bottom}, {f.x(tick.at), bottom + 4}, "axis");
    svg.text({f.x(tick.at), bottom + 17}, tick.text, Anchor::middle);
  }
  svg.line({left, bottom}, {right, bottom}, "axis");
  svg.text({right, bottom + 32}, x_unit, Anchor::end, "unit");
  return f;
}

std::string legend(const std::vector<LegendEntry>& entries) {
  std::string text = "<ul class=\"legend\">";
  for (const LegendEntry& e : entries)
    text += fmt::format("<li><span class=\"key {}\"></span>{}</li>", e.css, escape(e.name));
  return text + "</ul>\n";
}

std::vector<Point> thinned(const std::vector<Point>& points, std::size_t columns) {
  if (points.size() <= 4 * columns) return points;
  const double first = points.front().x, width = points.back().x - first;
  const auto column = [&](const Point& p) {
    return std::min(columns - 1,
                    static_cast<std::size_t>((p.x - first) / width * static_cast<double>(columns)));
  };
  const auto lower = [](const Point& a, const Point& b) { return a.y < b.y; };
  std::vector<Point> kept;
  for (auto begin = points.begin(); begin != points.end();) {
    const std::size_t c = column(*begin);
    const auto end =
        std::find_if(begin, points.end(), [&](const Point& p) { return column(p) != c; });
    auto [low, high] = std::minmax_element(begin, end, lower);
    if (high < low) std::swap(low, high);
    auto last = points.end();
    for (const auto at : {begin, low, high, end - 1}) {
      if (at != last) kept.push_back(*at);
      last = at;
    }
    begin = end;
  }
  return kept;
}

}  // namespace shardmark::html
