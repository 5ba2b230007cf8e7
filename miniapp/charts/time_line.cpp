// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/charts/axis.hpp>
#include <miniapp/charts/time_line.hpp>

namespace shardmark::html {
namespace {

constexpr double lane_height = 26, gap = 10;
constexpr double plot_left = 124, plot_beside = 16, plot_top = 8;

double height_of(const TimeLine::Row& row) {
  return row.lanes > 1 ? 2 * lane_height : lane_height;
}

struct Drawn {
  Span span;
  int merged = 1;
};

// Merges a span into the one before if they start at the same place of the drawing; the longer one
// gives name and colour. So a row has no more spans than places.
std::vector<Drawn> merged(const std::vector<Span>& spans, double least) {
  std::vector<Drawn> list;
  double longest = 0;  // of the spans that the last one was merged from
  for (const Span& s : spans) {
    const double length = s.end - s.begin;
    if (list.empty() || list.back().span.row != s.row ||
        s.begin - list.back().span.begin >= least) {
      list.push_back({s});
      longest = length;
      continue;
    }
    Span& into = list.back().span;
    into.end = std::max(into.end, s.end);
    ++list.back().merged;
    if (length <= longest) continue;
    longest = length;
    into.css = s.css;
    into.title = s.title;
  }
  return list;
}

// Takes the first lane that is free; the last one, if none is.
std::size_t lane_of(std::vector<double>& busy_until, const Span& s) {
  const auto free = std::find_if(busy_until.begin(), busy_until.end() - 1,
                                 [&](double until) { return until <= s.begin; });
  *free = std::max(*free, s.end);
  return static_cast<std::size_t>(free - busy_until.begin());
}

void draw_row(Svg& svg, const TimeLine::Row& row, double y, const std::vector<Drawn>& spans,
              std::size_t number, const Scale& x) {
  const double height = height_of(row), lane = height / row.lanes;
  std::vector<double> busy(static_cast<std::size_t>(row.lanes), -1);
  svg.text({x.from - 10, y + height / 2 + 4}, row.name, Anchor::end);
  svg.box(x.from, y, x.to - x.from, height, "lane");
  for (const auto& [s, merged] : spans) {
    if (s.row != number) continue;
    const double from = x(s.begin), to = std::max(x(s.end), from + 0.3);
    const std::string many = merged > 1 ? fmt::format(" and {} more", merged - 1) : "";
    svg.box(
        from, y + static_cast<double>(lane_of(busy, s)) * lane, to - from,
        row.lanes > 1 ? lane - 1 : height, s.css,
        fmt::format("{}{}: {} at {}", s.title, many, duration(s.end - s.begin), duration(s.begin)));
  }
}

void draw_time_axis(Svg& svg, double bottom, const Scale& x) {
  const bool seconds = x.high >= 2;
  const double unit = seconds ? 1 : 1e-3;
  const auto values = ticks(0, x.high / unit, most_columns(svg.width()));
  const double distance = values.size() > 1 ? values[1] - values[0] : 1;
  svg.line({x.from, bottom}, {x.to, bottom}, "axis");
  for (const double v : values) {
    const double at = x(v * unit);
    svg.line({at, bottom}, {at, bottom + 4}, "axis");
    svg.text({at, bottom + 17}, tick_text(v, distance), Anchor::middle);
  }
  svg.text({x.to, bottom + 34}, seconds ? "s" : "ms", Anchor::end, "unit");
}

}  // namespace

std::string draw(const TimeLine& t, double width) {
  if (!(t.length_s > 0)) return {};
  double bottom = plot_top;
  for (const TimeLine::Row& row : t.rows)
    if (row.lanes > 0) bottom += height_of(row) + gap;
  Svg svg(width, bottom + 40, t.label);
  const Scale x{0, t.length_s, plot_left, width - plot_beside};
  const std::vector<Drawn> spans = merged(t.spans, t.length_s / (x.to - x.from));
  double y = plot_top;
  for (std::size_t row = 0; row < t.rows.size(); ++row) {
    if (t.rows[row].lanes == 0) continue;
    draw_row(svg, t.rows[row], y, spans, row, x);
    y += height_of(t.rows[row]) + gap;
  }
  draw_time_axis(svg, bottom, x);
  return svg.str() + legend(t.legend);
}

}  // namespace shardmark::html
