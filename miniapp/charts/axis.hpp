// SPDX-License-Identifier: Apache-2.0
// The axes of a drawing, linear or logarithmic, and the frame that they make.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <miniapp/charts/svg.hpp>

namespace shardmark::html {

/// Maps a range of values to a range of the drawing's units.
struct Scale {
  double low = 0, high = 1;  // values
  double from = 0, to = 1;   // units
  bool logarithmic = false;
  double operator()(double value) const;
};

/// A mark on an axis and its text.
struct Tick {
  double at = 0;     // value on the axis
  std::string text;  // below an x axis two lines, if there is a line end in it
};

/// An axis as a chart asks for it.
struct ChartAxis {
  std::string unit;  // written at its end
  int log_base = 0;  // 10 or 2: logarithmic, with ticks at its powers; 0: linear
  // By default they follow from what is drawn; a chart moves those that are given as far as what
  // lies beyond them, so that no point is drawn at another place than its own.
  std::optional<double> low = {}, high = {};
  std::vector<Tick> ticks = {};                 // by default at round values
  double closest = 0;                           // 1: ticks are at whole numbers
  std::string (*text)(double value) = nullptr;  // of a tick at a round value
};

/// Round values (1, 2 or 5 times a power of ten apart, and not closer than `closest`) within
/// [low, high], at most `most` of them.
std::vector<double> ticks(double low, double high, int most, double closest = 0);
/// The same on a logarithmic axis: powers of `base`, and for 10 also 2 and 5 times these if there
/// is room.
std::vector<double> power_ticks(double low, double high, int most, int base);
/// The text of a tick, with as many decimals as the distance of the ticks needs.
std::string tick_text(double value, double distance);

/// How wide `text` is in a drawing of `width` units, in units. Counts characters of UTF-8, not
/// bytes.
double text_width(std::string_view text, double width);

/// The plot area of a chart: horizontal grid lines with figures at the left, figures below, units
/// at the ends of both axes.
struct Frame {
  Scale x, y;
  double left, right, top, bottom;
};
/// Draws the frame as wide as `svg`. Both axes must have their ends. It leaves out the texts below
/// the axis that would overlap.
Frame draw_frame(Svg& svg, double height, const ChartAxis& x, const ChartAxis& y);

/// Keeps at most four points in each of `columns` equal parts of the width: first, lowest, highest
/// and last. Points ascend in x before and after.
std::vector<Point> thinned(const std::vector<Point>& points, std::size_t columns);

}  // namespace shardmark::html
