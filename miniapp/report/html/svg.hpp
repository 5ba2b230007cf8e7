// SPDX-License-Identifier: Apache-2.0
// Drawings inside a page: one <svg> each, no script, colours by the page's classes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardmark::html {

/// From a range of values to a range of the drawing's units.
struct Scale {
  double low = 0, high = 1;  // values
  double from = 0, to = 1;   // units
  double operator()(double value) const {
    return from + (value - low) / (high - low) * (to - from);
  }
};

/// Round values (1, 2 or 5 times a power of ten apart, and not closer than `closest`) within
/// [low, high], at most `most` of them.
std::vector<double> ticks(double low, double high, int most, double closest = 0);
/// A tick's text: as many decimals as the distance of the ticks needs.
std::string tick_text(double value, double distance);

/// A place in a drawing.
struct Point {
  double x = 0, y = 0;  // units
};

enum class Anchor { start, middle, end };

/// One drawing, written shape by shape.
class Svg {
 public:
  /// `label` says what the drawing shows, for those who do not see it.
  Svg(double width, double height, std::string_view label);

  void line(Point a, Point b, std::string_view css);
  /// `step`: from each point level to the next one's x, then up or down. A lone point is a dot.
  void curve(const std::vector<Point>& points, std::string_view css, bool step = false);
  /// Between two step curves over the same x, the last level until `end`.
  void area(const std::vector<Point>& upper, const std::vector<Point>& lower, double end,
            std::string_view css);
  void dot(Point at, std::string_view css, std::string_view title = {});
  /// `title` is shown under the mouse; empty: none.
  void box(double x, double y, double width, double height, std::string_view css,
           std::string_view title = {});
  void text(Point at, std::string_view text, Anchor anchor = Anchor::start,
            std::string_view css = {});

  std::string str() const { return text_ + "</svg></div>\n"; }

 private:
  std::string text_;
};

/// The plot area of a chart with its axes: horizontal grid lines with figures at the left, figures
/// below, a title above each axis.
struct Frame {
  Scale x, y;
  double left, right, top, bottom;
};
inline constexpr double chart_width = 960;
/// Units of the drawing; `y_unit` and `x_unit` are written at the axes' ends. What is counted along
/// x has ticks at whole numbers.
Frame draw_frame(Svg& svg, double height, double x_low, double x_high, double y_low, double y_high,
                 std::string_view x_unit, std::string_view y_unit);

/// A mark on an axis and its text.
struct Tick {
  double at = 0;  // a value
  std::string text;
};
/// The same with the ticks of the x axis as given.
Frame draw_frame(Svg& svg, double height, double x_low, double x_high, double y_low, double y_high,
                 const std::vector<Tick>& columns, std::string_view x_unit,
                 std::string_view y_unit);

/// Colours with their names, below a drawing; `css` is the class of what they explain.
struct LegendEntry {
  std::string_view css, name;
};
std::string legend(const std::vector<LegendEntry>& entries);

/// At most four points for each of `columns` parts of their width: first, lowest, highest, last.
/// Ascending in x before and after.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t columns);

}  // namespace shardmark::html
