// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <stdexcept>

#include <fmt/core.h>

#include <miniapp/charts/palette.hpp>

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

}  // namespace shardmark::html
