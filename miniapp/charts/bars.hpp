// SPDX-License-Identifier: Apache-2.0
// Groups of stacked bars over names.
#pragma once

#include <string>
#include <vector>

#include <miniapp/charts/chart.hpp>

namespace shardmark::html {

/// A part of a stacked bar.
struct BarPart {
  std::string css, name;  // the name stands in the legend; may be empty
  double value = 0;
  std::string title;  // appears under the mouse
};
/// One bar; without parts a dash stands in its place.
struct Bar {
  std::vector<BarPart> parts;
  bool bad = false;  // its figure is red
};
struct BarGroup {
  std::string name;
  std::vector<Bar> bars;  // as many in each group
};

struct Bars {
  std::string label;           // describes the drawing to screen readers
  std::string x_unit, y_unit;  // what the names of groups are, and the figures
  std::vector<BarGroup> groups;
  std::vector<Level> levels = {};
};

/// The drawing, `width` units wide, with its legend; "" without groups.
std::string draw(const Bars& bars, double width);
/// The same for wide and for narrow screens.
std::string to_html(const Bars& bars);

}  // namespace shardmark::html
