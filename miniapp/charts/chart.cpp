// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include <miniapp/charts/chart.hpp>
#include <miniapp/charts/text.hpp>

namespace shardmark::html {
namespace {

constexpr std::size_t line_columns = 400, area_columns = 240;  // see thinned()

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void include(double value) {
    if (std::isfinite(value)) low = std::min(low, value), high = std::max(high, value);
  }
};

constexpr double headroom = 1.08;    // of a linear axis, beyond what is drawn
constexpr double log_margin = 1.15;  // the same of a logarithmic one
constexpr double highest_level = 3;  // a level above so many times what else is drawn is left out

// A logarithmic axis has no place for a value that is not positive, which leaves a gap instead.
void leave_gaps(Chart& c) {
  const auto has_place = [](const ChartAxis& axis, double v) {
    return axis.log_base == 0 || v > 0;
  };
  for (Curve& curve : c.curves)
    for (Datum& d : curve.data)
      if (!has_place(c.x, d.x) || !has_place(c.y, d.y))
        d.y = std::numeric_limits<double>::quiet_NaN();
}

// Gives an axis the ends that it lacks, and moves those that it has to what lies beyond them.
void end_axis(ChartAxis& axis, Range seen, bool from_zero) {
  if (!(seen.high >= seen.low)) seen = {axis.log_base > 0 ? 1.0 : 0.0, 1};
  Range wanted = seen;
  if (axis.log_base > 0)
    wanted = {seen.low / log_margin, seen.high * log_margin};
  else if (from_zero)
    wanted = {std::min(0.0, headroom * seen.low), std::max(0.0, headroom * seen.high)};
  if (!axis.low || *axis.low > seen.low) axis.low = wanted.low;
  if (!axis.high || *axis.high < seen.high) axis.high = wanted.high;
  if (!(*axis.high > *axis.low)) axis.high = *axis.low + 1;
}

std::vector<double> sums_of(const std::vector<Area>& stack) {
  std::vector<double> sums(stack.empty() ? 0 : stack.front().heights.size());
  for (const Area& area : stack)
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += area.heights[i];
  return sums;
}

void end_axes(Chart& c) {
  Range x, y;
  for (const Curve& curve : c.curves)
    for (const Datum& d : curve.data) {
      if (!std::isfinite(d.y)) continue;
      x.include(d.x);
      y.include(d.y);
    }
  for (const double sum : sums_of(c.stack)) y.include(sum);
  if (!c.stack.empty())
    x.include(0), x.include(static_cast<double>(c.stack.front().heights.size()));
  for (const BarGroup& group : c.bars)
    for (const Bar& bar : group.bars) y.include(bar.sum());
  if (!c.bars.empty()) {
    c.x.low = 0, c.x.high = static_cast<double>(c.bars.size());
    for (std::size_t g = 0; g < c.bars.size(); ++g)
      c.x.ticks.push_back({static_cast<double>(g) + 0.5, c.bars[g].name});
  }
  const double others = y.high;
  for (const Level& level : c.levels)
    if (!(level.at > highest_level * others)) y.include(level.at);
  end_axis(c.x, x, false);
  end_axis(c.y, y, true);
}

void draw_bands(Svg& svg, const Frame& f, const std::vector<Band>& bands) {
  for (const Band& band : bands) {
    const double from = f.x(band.from), to = f.x(band.to);
    if (band.shaded) svg.box(from, f.top, to - from, f.bottom - f.top, "band", band.title);
    if (band.named && text_width(band.title, svg.width()) < to - from)
      svg.text({(from + to) / 2, f.top - 4}, band.title, Anchor::middle, "unit");
  }
}

void draw_stack(Svg& svg, const Frame& f, const std::vector<Area>& stack) {
  const std::vector<double> sums = sums_of(stack);
  std::vector<Point> points;
  for (std::size_t i = 0; i < sums.size(); ++i) points.push_back({static_cast<double>(i), sums[i]});
  std::vector<std::size_t> kept;
  std::vector<Point> lower;
  for (const Point& p : thinned(points, area_columns)) {
    kept.push_back(static_cast<std::size_t>(p.x));
    lower.push_back({f.x(p.x), f.y(0)});
  }
  std::vector<double> sum(kept.size());
  for (const Area& area : stack) {
    std::vector<Point> upper = lower;
    for (std::size_t i = 0; i < kept.size(); ++i) {
      sum[i] += area.heights[kept[i]];
      upper[i].y = f.y(sum[i]);
    }
    svg.area(upper, lower, f.right, area.css);
    lower = std::move(upper);
  }
}

void draw_line(Svg& svg, const Frame& f, const Curve& curve) {
  std::vector<Point> line;
  const auto end = [&] {
    svg.curve(thinned(line, line_columns), curve.css, curve.form == Curve::Form::steps);
    line.clear();
  };
  for (const Datum& d : curve.data)
    if (std::isfinite(d.y))
      line.push_back({f.x(d.x), f.y(d.y)});
    else
      end();
  end();
}

// Texts beside points; one that would lie on another one or outside is left out.
class Labels {
 public:
  Labels(Svg& svg, const Frame& frame) : svg_(svg), frame_(frame) {}
  void add(Point at, const std::string& text) {
    const double width = text_width(text, svg_.width());
    const bool before = at.x + width + 8 > frame_.right;
    const Point place{before ? at.x - 6 : at.x + 6, std::max(frame_.top + 8, at.y - 8)};
    const Box box{before ? place.x - width : place.x, place.y - 12, width, 14};
    if (box.x < frame_.left) return;
    for (const Box& other : taken_)
      if (box.x < other.x + other.width && other.x < box.x + box.width &&
          box.y < other.y + other.height && other.y < box.y + box.height)
        return;
    taken_.push_back(box);
    svg_.text(place, text, before ? Anchor::end : Anchor::start, "strong");
  }

 private:
  struct Box {
    double x, y, width, height;
  };
  Svg& svg_;
  const Frame& frame_;
  std::vector<Box> taken_;
};

void draw_curves(Svg& svg, const Frame& f, const std::vector<Curve>& curves) {
  using Form = Curve::Form;
  for (const Curve& c : curves)
    if (c.form != Form::dots) draw_line(svg, f, c);
  Labels labels(svg, f);
  for (const Curve& c : curves)
    for (const Datum& d : c.data) {
      if (!std::isfinite(d.y)) continue;
      const Point at{f.x(d.x), f.y(d.y)};
      if (c.form == Form::dots || c.form == Form::line_and_dots)
        svg.dot(at, d.css.empty() ? c.css : d.css, d.title);
      if (!d.label.empty()) labels.add(at, d.label);
    }
}

// One mark if several share a place.
void draw_marks(Svg& svg, const Frame& f, const Marks& marks) {
  double last = -std::numeric_limits<double>::infinity();
  for (const double value : marks.at) {
    const double x = f.x(value);
    if (x - last < 1) continue;
    svg.line({x, f.bottom}, {x, f.bottom - marks.height}, marks.css);
    last = x;
  }
}

// The entries of a chart whose axes have their ends.
std::vector<LegendEntry> legend_entries(const Chart& c) {
  std::vector<LegendEntry> entries;
  const auto add = [&](const std::string& css, const std::string& name) {
    if (!name.empty()) entries.push_back({css, name});
  };
  for (const Area& a : c.stack) add(a.css, a.name);
  for (const Curve& curve : c.curves)
    add((curve.form == Curve::Form::dots ? "dot " : "curve ") + curve.css, curve.name);
  for (LegendEntry& e : legend_of(c.bars)) entries.push_back(std::move(e));
  for (const Level& l : c.levels)
    add("curve " + l.css, l.name + (l.at > *c.y.high ? ", far above this drawing" : ""));
  for (const Marks& m : c.marks)
    if (!m.at.empty()) add(m.css, m.name);
  entries.insert(entries.end(), c.legend.begin(), c.legend.end());
  return entries;
}

bool has_data(const Chart& c) {
  const auto drawn = [](const Curve& curve) {
    return std::ranges::any_of(curve.data, [](const Datum& d) { return std::isfinite(d.y); });
  };
  return !c.stack.empty() || !c.bars.empty() || std::ranges::any_of(c.curves, drawn);
}

}  // namespace

std::vector<LegendEntry> draw_shapes(Svg& svg, const Chart& chart) {
  Chart c = chart;
  leave_gaps(c);
  if (!has_data(c)) return {};
  end_axes(c);
  const Frame f = draw_frame(svg, c.height, c.x, c.y);
  draw_bands(svg, f, c.bands);
  draw_stack(svg, f, c.stack);
  draw_bars(svg, f, c.bars);
  for (const Level& level : c.levels)
    if (level.at <= f.y.high)
      svg.line({f.left, f.y(level.at)}, {f.right, f.y(level.at)}, level.css);
  draw_curves(svg, f, c.curves);
  for (const Marks& marks : c.marks) draw_marks(svg, f, marks);
  return legend_entries(c);
}

std::string draw(const Chart& chart, double width) {
  Svg svg(width, chart.height, chart.label);
  const std::vector<LegendEntry> entries = draw_shapes(svg, chart);
  return svg.shapes().empty() ? std::string() : svg.str() + legend(entries);
}

std::string titled(std::string_view title, std::string_view note, const std::string& chart) {
  std::string text = fmt::format("<h3>{}</h3>\n", escape(title));
  if (!note.empty()) text += fmt::format("<p class=\"soft\">{}</p>\n", escape(note));
  return text + chart;
}

ByteUnit byte_unit(double most) {
  ByteUnit unit{1, "B"};
  for (const char* name : {"KiB", "MiB", "GiB", "TiB"})
    if (most >= 2 * unit.bytes * 1024) unit = {unit.bytes * 1024, name};
  return unit;
}

}  // namespace shardmark::html
