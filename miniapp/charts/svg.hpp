// SPDX-License-Identifier: Apache-2.0
// Drawings in a page, each one <svg> without script; the page's style gives the colours.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardmark::html {

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
  /// The drawing as a part of a page.
  std::string str() const;
  /// What was drawn so far, without a frame around it.
  const std::string& shapes() const { return text_; }

 private:
  double width_, height_;
  std::string label_, text_;
};

inline constexpr double chart_width = 960;
/// A chart that stands beside another one on a wide screen, and is read without scrolling on a
/// narrow one.
inline constexpr double half_chart_width = 470;

/// A Chart or a TimeLine twice: for wide screens and for narrow ones, where a wide drawing could
/// only be read by scrolling; the page's style shows one of them. "" if there is nothing to draw.
template<class Drawing>
std::string to_html(const Drawing& drawing) {
  const std::string wide = draw(drawing, chart_width);
  if (wide.empty()) return {};
  return "<div class=\"on-wide\">" + wide + "</div><div class=\"on-narrow\">" +
         draw(drawing, half_chart_width) + "</div>\n";
}

/// How many ticks an x axis has at most, and how wide a character of its texts is.
constexpr int most_columns(double width) {
  return width < chart_width ? 6 : 11;
}
constexpr double character_width(double width) {
  return width < chart_width ? 8 : 7;
}

/// The legend below a drawing; `css` is the class of the things that an entry explains.
struct LegendEntry {
  std::string css, name;
};
/// "" without entries.
std::string legend(const std::vector<LegendEntry>& entries);

}  // namespace shardmark::html
