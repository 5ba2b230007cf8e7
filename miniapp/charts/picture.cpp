// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <miniapp/charts/palette.hpp>
#include <miniapp/charts/picture.hpp>
#include <miniapp/charts/text.hpp>

namespace shardmark::html {
namespace {

constexpr double picture_left = 14, title_height = 46, key_height = 20;

/// The legend above a chart, in as many lines as it needs.
struct PictureLegend {
  std::string shapes;
  double height = 0;
};

PictureLegend picture_legend(const std::vector<LegendEntry>& entries) {
  constexpr double key = 12, before_text = 18, after_text = 22;
  Svg svg(chart_width, 0, "");
  double x = picture_left, y = 0;
  for (const LegendEntry& e : entries) {
    const double length = before_text + text_width(e.name, chart_width);
    if (x > picture_left && x + length > chart_width) x = picture_left, y += key_height;
    const std::string css = e.css.substr(e.css.find(' ') + 1);  // without "curve" or "dot"
    if (e.css.starts_with("curve "))
      svg.line({x, y + key / 2}, {x + key, y + key / 2}, css);
    else if (!e.css.empty())
      svg.box(x, y, key, key, css);
    svg.text({e.css.empty() ? x : x + before_text, y + key - 1}, e.name);
    x += length + after_text;
  }
  return {svg.shapes(), entries.empty() ? 0 : y + key_height};
}

std::string picture_style(std::string_view shapes) {
  return fmt::format(
             "text {{ fill: {0} }} text.unit {{ fill: {1} }} text.strong, .title {{ font-weight: "
             "600 }}\n"
             ".grid {{ stroke: {2} }} .axis {{ stroke: {1} }} path {{ fill: none; stroke-width: "
             "1.8 }}\n"
             ".ideal, .limit, .predicted {{ stroke-dasharray: 6 4; stroke-width: 1.5 }}\n",
             light_colour("ink"), light_colour("soft"), light_colour("line")) +
         plain_class_rules(shapes);
}

std::string moved_down(double y, const std::string& shapes) {
  return fmt::format("<g transform=\"translate(0 {:g})\">\n{}</g>\n", y, shapes);
}

}  // namespace

std::string picture(std::string_view title, std::string_view note, const Chart& chart) {
  Svg drawing(chart_width, chart.height, chart.label);
  const std::vector<LegendEntry> entries = draw_shapes(drawing, chart);
  if (drawing.shapes().empty()) return {};
  Svg head(chart_width, title_height, "");
  head.text({picture_left, 20}, title, Anchor::start, "title");
  head.text({picture_left, 38}, note, Anchor::start, "unit");
  const PictureLegend key = picture_legend(entries);
  const double top = title_height + 8;
  const std::string shapes =
      head.shapes() + moved_down(top, key.shapes) + moved_down(top + key.height, drawing.shapes());
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" "
             "viewBox=\"0 0 {0:g} {1:g}\" role=\"img\" aria-label=\"{2}\" "
             "font-family=\"sans-serif\" "
             "font-size=\"12\">\n<style>{3}</style>\n<rect width=\"{0:g}\" height=\"{1:g}\" "
             "fill=\"{4}\"/>\n",
             chart_width, top + key.height + chart.height, escape(chart.label),
             picture_style(shapes), light_colour("page")) +
         shapes + "</svg>\n";
}

}  // namespace shardmark::html
