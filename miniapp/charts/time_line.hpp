// SPDX-License-Identifier: Apache-2.0
// Spans of time in rows.
#pragma once

#include <string>
#include <vector>

#include <miniapp/charts/svg.hpp>

namespace shardmark::html {

/// Something that takes time. Times in s from the start.
struct Span {
  std::size_t row = 0;
  std::string css;
  double begin = 0, end = 0;
  std::string title;  // appears under the mouse, with how long it took and when
};

struct TimeLine {
  struct Row {
    std::string name;
    int lanes = 1;  // of spans that overlap; two and more share twice the height; 0: left out
  };
  std::string label;  // describes the drawing to screen readers
  double length_s = 0;
  std::vector<Row> rows;
  std::vector<Span> spans;  // ascend in row and begin
  std::vector<LegendEntry> legend;
};

/// The drawing, `width` units wide, with its legend. Spans that would lie on the same place become
/// one, which has the colour of the longest; "" if there is no time.
std::string draw(const TimeLine& time_line, double width);

}  // namespace shardmark::html
