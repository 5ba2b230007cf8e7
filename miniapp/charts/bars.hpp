// SPDX-License-Identifier: Apache-2.0
// Groups of stacked bars over names: what a chart has in place of curves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <core/enum_array.hpp>
#include <core/plan/deck/types.hpp>
#include <miniapp/charts/axis.hpp>

namespace shardmark::html {

/// A part of a stacked bar.
struct BarPart {
  std::string css, name;  // the name stands in the legend; may be empty
  double value = 0;
  std::string title = {};  // appears under the mouse
};
/// One bar; without parts a dash stands in its place.
struct Bar {
  std::vector<BarPart> parts;
  bool bad = false;  // its figure is red

  double sum() const;
};
struct BarGroup {
  std::string name;
  std::vector<Bar> bars;  // as many in each group
};

/// Bytes by category as parts in units of `unit_bytes`; titles say `at`, size and category.
std::vector<BarPart> category_parts(const EnumArray<Category, std::int64_t>& bytes,
                                    double unit_bytes, std::string_view at);

/// Draws groups of equal width, the first one from 0 to 1 of the x axis.
void draw_bars(Svg& svg, const Frame& frame, const std::vector<BarGroup>& groups);
/// Each part that is drawn, once.
std::vector<LegendEntry> legend_of(const std::vector<BarGroup>& groups);

}  // namespace shardmark::html
