// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <miniapp/charts/svg.hpp>
#include <miniapp/charts/text.hpp>

namespace shardmark::html {

Svg::Svg(double width, double height, std::string_view label)
    : width_(width), height_(height), label_(label) {}

std::string Svg::str() const {
  return fmt::format(
             "<div class=\"wide\"><svg viewBox=\"0 0 {:g} {:g}\" role=\"img\" "
             "aria-label=\"{}\">\n",
             width_, height_, escape(label_)) +
         text_ + "</svg></div>\n";
}

void Svg::line(Point a, Point b, std::string_view css) {
  text_ += fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" "
      "class=\"{}\"/>\n",
      a.x, a.y, b.x, b.y, css);
}

void Svg::curve(const std::vector<Point>& points, std::string_view css, bool step) {
  if (points.empty()) return;
  if (points.size() == 1) {
    text_ += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" class=\"{}\"/>\n",
                         points[0].x, points[0].y, css);
    return;
  }
  text_ += "<path d=\"";
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i == 0)
      text_ += fmt::format("M{:.1f} {:.1f}", points[i].x, points[i].y);
    else if (step)
      text_ += fmt::format("H{:.1f}V{:.1f}", points[i].x, points[i].y);
    else
      text_ += fmt::format("L{:.1f} {:.1f}", points[i].x, points[i].y);
  }
  text_ += fmt::format("\" class=\"{}\"/>\n", css);
}

void Svg::area(const std::vector<Point>& upper, const std::vector<Point>& lower, double end,
               std::string_view css) {
  if (upper.empty()) return;
  text_ += fmt::format("<path d=\"M{:.1f} {:.1f}", upper[0].x, upper[0].y);
  for (std::size_t i = 1; i < upper.size(); ++i)
    text_ += fmt::format("H{:.1f}V{:.1f}", upper[i].x, upper[i].y);
  text_ += fmt::format("H{:.1f}V{:.1f}", end, lower.back().y);
  for (std::size_t i = lower.size() - 1; i > 0; --i)
    text_ += fmt::format("H{:.1f}V{:.1f}", lower[i].x, lower[i - 1].y);
  text_ += fmt::format("H{:.1f}Z\" class=\"area {}\"/>\n", lower[0].x, css);
}

void Svg::dot(Point at, std::string_view css, std::string_view title) {
  text_ +=
      fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3.5\" class=\"{}\"", at.x, at.y, css);
  text_ += title.empty() ? "/>\n" : fmt::format("><title>{}</title></circle>\n", escape(title));
}

void Svg::box(double x, double y, double width, double height, std::string_view css,
              std::string_view title) {
  text_ += fmt::format(
      "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.1f}\" "
      "class=\"{}\"",
      x, y, width, height, css);
  text_ += title.empty() ? "/>\n" : fmt::format("><title>{}</title></rect>\n", escape(title));
}

void Svg::text(Point at, std::string_view text, Anchor anchor, std::string_view css) {
  constexpr const char* names[] = {"start", "middle", "end"};
  text_ +=
      fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", at.x, at.y,
                  names[static_cast<int>(anchor)],
                  css.empty() ? std::string{} : fmt::format(" class=\"{}\"", css), escape(text));
}

std::string legend(const std::vector<LegendEntry>& entries) {
  if (entries.empty()) return {};
  std::string text = "<ul class=\"legend\">";
  for (const LegendEntry& e : entries)
    text += fmt::format("<li><span class=\"key {}\"></span>{}</li>", e.css, escape(e.name));
  return text + "</ul>\n";
}

}  // namespace shardmark::html
