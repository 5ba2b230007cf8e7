// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <stdexcept>

#include <fmt/core.h>

#include <miniapp/charts/palette.hpp>
#include <miniapp/charts/text.hpp>

namespace shardmark::html {

namespace {

struct NamedColour {
  std::string_view name, light, dark;
};
constexpr std::array<NamedColour, 20> colours{
    {{"page", "#fff", "#14181c"},      {"ink", "#1c2126", "#e4e8ec"},
     {"soft", "#5b6670", "#9aa6b2"},   {"line", "#d9dee3", "#333c45"},
     {"faint", "#f3f5f7", "#1d2329"},  {"good", "#1b7a3d", "#5cc98a"},
     {"bad", "#b3261e", "#ff8a80"},    {"warn", "#8a5a00", "#e9b44c"},
     {"blue", "#2b6cb0", "#6aa9ea"},   {"orange", "#c2601a", "#ee9a5c"},
     {"green", "#2f855a", "#68bd8f"},  {"purple", "#7b4bb3", "#b794e6"},
     {"teal", "#16818c", "#56bcc6"},   {"gray", "#9aa5b1", "#66727e"},
     {"red", "#c53b3b", "#ec7d7d"},    {"state1", "#1f4e8c", "#3b6fb5"},
     {"state2", "#2f6fb7", "#5288cc"}, {"state3", "#5b92d0", "#6fa1dd"},
     {"state4", "#8ab4e3", "#93bbea"}, {"state5", "#b7d2f0", "#bad6f5"}}};

struct ClassColour {
  std::string_view css, colour;
};
constexpr std::array<ClassColour, 32> classes{{{"loss", "blue"},
                                               {"forward", "blue"},
                                               {"measured", "ink"},
                                               {"arena", "soft"},
                                               {"limit", "red"},
                                               {"skipped", "orange"},
                                               {"lost", "red"},
                                               {"band", "faint"},
                                               {"lane", "faint"},
                                               {"backward", "orange"},
                                               {"step", "green"},
                                               {"copy", "teal"},
                                               {"communication", "purple"},
                                               {"waiting", "red"},
                                               {"allocation", "gray"},
                                               {"param", "state1"},
                                               {"grad", "state2"},
                                               {"master", "state3"},
                                               {"momentum", "state4"},
                                               {"variance", "state5"},
                                               {"bucket", "orange"},
                                               {"gathered", "purple"},
                                               {"activation", "green"},
                                               {"workspace", "gray"},
                                               {"staging", "teal"},
                                               {"work", "blue"},
                                               {"series0", "blue"},
                                               {"series1", "orange"},
                                               {"series2", "green"},
                                               {"series3", "purple"},
                                               {"series4", "teal"},
                                               {"series5", "gray"}}};

// Whether an attribute class="…" of the shapes names the class.
bool occurs(std::string_view shapes, std::string_view css) {
  for (std::size_t at = shapes.find(css); at != std::string_view::npos;
       at = shapes.find(css, at + 1)) {
    const char before = at > 0 ? shapes[at - 1] : ' ';
    const char after = at + css.size() < shapes.size() ? shapes[at + css.size()] : ' ';
    if ((before == '"' || before == ' ') && (after == '"' || after == ' ')) return true;
  }
  return false;
}

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

std::string colour_variables(bool dark) {
  std::string text;
  for (const NamedColour& c : colours)
    text += fmt::format("--{}: {};\n  ", c.name, dark ? c.dark : c.light);
  return text;
}

std::string class_rules() {
  std::string text;
  for (const ClassColour& c : classes)
    text += fmt::format(".{} {{ --c: var(--{}) }}\n", c.css, c.colour);
  return text;
}

std::string plain_class_rules(std::string_view shapes) {
  std::string text;
  for (const ClassColour& c : classes)
    if (occurs(shapes, c.css))
      text += fmt::format(
          "rect.{0}, circle.{0}, path.area.{0} {{ fill: {1} }} line.{0}, path.{0} {{ stroke: {1} "
          "}}\n",
          c.css, light_colour(c.colour));
  return text;
}

std::string_view light_colour(std::string_view name) {
  for (const NamedColour& c : colours)
    if (c.name == name) return c.light;
  throw std::out_of_range(fmt::format("no colour is called {}", name));
}

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
