// SPDX-License-Identifier: Apache-2.0
// Drawings in a page, each one <svg> without script; the page's style gives the colours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardmark::html {

/// Maps a range of values to a range of the drawing's units.
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
/// The text of a tick, with as many decimals as the distance of the ticks needs.
std::string tick_text(double value, double distance);

/// A place in a drawing.
struct Point {
  double x = 0, y = 0;  // units
};

enum class Anchor { start, middle, end };

/// One drawing, written shape by shape.
class Svg {
 public:
  /// `label` describes the drawing to screen readers.
  Svg(double width, double height, std::string_view label);

  void line(Point a, Point b, std::string_view css);
  /// With `step`, the line stays level until the x of the next point. A single point is a dot.
  void curve(const std::vector<Point>& points, std::string_view css, bool step = false);
  /// Fills the area between two step curves over the same x; the last level extends to `end`.
  void area(const std::vector<Point>& upper, const std::vector<Point>& lower, double end,
            std::string_view css);
  void dot(Point at, std::string_view css, std::string_view title = {});
  /// `title` appears under the mouse; may be empty.
  void box(double x, double y, double width, double height, std::string_view css,
           std::string_view title = {});
  void text(Point at, std::string_view text, Anchor anchor = Anchor::start,
            std::string_view css = {});

  double width() const { return width_; }
  std::string str() const { return text_ + "</svg></div>\n"; }

 private:
  double width_;
  std::string text_;
};

/// The plot area of a chart with its axes: horizontal grid lines with figures at the left, figures
/// below, a title above each axis.
struct Frame {
  Scale x, y;
  double left, right, top, bottom;
};
inline constexpr double chart_width = 960;
/// A chart that stands beside another one on a wide screen, and is read without scrolling on a
/// narrow one.
inline constexpr double half_chart_width = 470;

/// How many ticks an x axis has at most.
constexpr int most_columns(double width) {
  return width < chart_width ? 6 : 11;
}

/// The same drawing for wide screens and for narrow ones, where a wide drawing could only be read
/// by scrolling; the page's style shows one of them. `draw` takes the width of the drawing and
/// returns its text; it returns "" if there is nothing to draw.
template<class Draw>
std::string at_both_widths(const Draw& draw) {
  const std::string wide = draw(chart_width);
  if (wide.empty()) return {};
  return "<div class=\"on-wide\">" + wide + "</div><div class=\"on-narrow\">" +
         draw(half_chart_width) + "</div>\n";
}
/// The frame is as wide as the drawing. Units of the drawing; `y_unit` and `x_unit` are written at
/// the axes' ends. What is counted along x has ticks at whole numbers.
Frame draw_frame(Svg& svg, double height, double x_low, double x_high, double y_low, double y_high,
                 std::string_view x_unit, std::string_view y_unit);

/// A mark on an axis and its text.
struct Tick {
  double at = 0;  // value on the axis
  std::string text;
};
/// The same with given ticks on the x axis.
Frame draw_frame(Svg& svg, double height, double x_low, double x_high, double y_low, double y_high,
                 const std::vector<Tick>& columns, std::string_view x_unit,
                 std::string_view y_unit);

/// The same with given ticks on both axes, for axes that are not linear.
Frame draw_frame(Svg& svg, double height, double x_low, double x_high, double y_low, double y_high,
                 const std::vector<Tick>& columns, const std::vector<Tick>& rows,
                 std::string_view x_unit, std::string_view y_unit);

/// The legend below a drawing; `css` is the class of the things that an entry explains.
struct LegendEntry {
  std::string_view css, name;
};
std::string legend(const std::vector<LegendEntry>& entries);

/// Keeps at most four points in each of `columns` equal parts of the width: first, lowest, highest
/// and last. Points ascend in x before and after.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t columns);

}  // namespace shardmark::html
