// SPDX-License-Identifier: Apache-2.0
// A chart over two axes as data: lines, dots, stacked areas, bars, levels, bands and marks.
#pragma once

#include <string>
#include <vector>

#include <miniapp/charts/bars.hpp>

namespace shardmark::html {

/// One value of a curve.
struct Datum {
  double x = 0, y = 0;     // one that is not finite, or not above 0 on a logarithmic axis: a gap
  std::string title = {};  // appears under the mouse
  std::string label = {};  // is written beside it, if there is room
  std::string css = {};    // of its dot, if it differs from the curve's
};

/// Values that belong together. `css` is the class that gives the colour.
struct Curve {
  enum class Form : std::uint8_t { line, steps, dots, line_and_dots };
  std::string css, name;  // the name stands in the legend; may be empty
  std::vector<Datum> data;
  Form form = Form::line;
};

/// Areas that lie on top of each other: their heights at 0, 1, 2 … of the x axis.
struct Area {
  std::string css, name;
  std::vector<double> heights;
};

/// A horizontal line over the whole width: a limit, an ideal. One that is so high above everything
/// else that it would flatten the drawing is only in the legend, which says so.
struct Level {
  double at = 0;
  std::string css, name;  // the name stands in the legend
};

/// A part of the x axis behind the curves.
struct Band {
  double from = 0, to = 0;
  std::string title;
  bool shaded = true;
  bool named = true;  // whether its title is written above it, if there is room
};

/// Marks on the x axis.
struct Marks {
  std::string css, name;
  double height = 0;  // units of the drawing
  std::vector<double> at;
};

/// The whole chart. Everything lies between the ends of its axes: those that are not given follow
/// from what is drawn, and those that are given give way to it. A linear y axis contains 0, so that
/// lengths can be compared.
struct Chart {
  std::string label;  // describes the drawing to screen readers
  ChartAxis x, y;
  double height = 260;
  std::vector<Band> bands = {};
  std::vector<Area> stack = {};
  std::vector<Curve> curves = {};
  std::vector<BarGroup> bars = {};  // over names, which are the ticks of the x axis
  std::vector<Level> levels = {};
  std::vector<Marks> marks = {};
  std::vector<LegendEntry> legend = {};  // what the names of the parts do not say, after them
};

/// Draws the chart as wide as `svg`, and returns the entries of its legend; nothing is drawn if
/// there is nothing to draw.
std::vector<LegendEntry> draw_shapes(Svg& svg, const Chart& chart);
/// The drawing, `width` units wide, with its legend; "" if there is nothing to draw.
std::string draw(const Chart& chart, double width);

/// "<h3>…</h3>", a sentence below it, and the chart; both texts may be anything.
std::string titled(std::string_view title, std::string_view note, const std::string& chart);

/// A unit that suits `most` bytes, and its size.
struct ByteUnit {
  double bytes;
  const char* name;
};
ByteUnit byte_unit(double most);

}  // namespace shardmark::html
