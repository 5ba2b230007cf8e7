// SPDX-License-Identifier: Apache-2.0
// The drawings of a sweep: curves over numbers, bars over names.
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include <miniapp/report/html/svg.hpp>
#include <miniapp/report/html/text.hpp>
#include <miniapp/tools/sweep/html/sweep_dims.hpp>

namespace shardmark::html {
namespace {

constexpr double height = 240;
constexpr double decade = 10;  // a ratio of values from which on the axis is logarithmic

double value_of(const SweepFigure& figure, const SweepPoint* point) {
  return point == nullptr ? NAN : figure.of(*point) * figure.factor;
}

double predicted_value(const SweepFigure& figure, const SweepPoint* point) {
  return point == nullptr || figure.predicted == nullptr ? NAN
                                                         : figure.predicted(*point) * figure.factor;
}

// The axis begins at 0, so that lengths can be compared, and ends a little above the highest value.
double top_of(const SeriesSet& series, const SweepFigure& figure) {
  double high = 0;
  for (const Series& s : series.list)
    for (const SweepPoint* p : s.points)
      for (const double v : {value_of(figure, p), predicted_value(figure, p)})
        if (std::isfinite(v)) high = std::max(high, v);
  return high > 0 ? 1.06 * high : 1;
}

std::string described(const SweepFigure& figure, const std::string& at, const std::string& name,
                      double value) {
  return fmt::format("{}{}{}: {:.4g} {}", at, name.empty() ? "" : ", ", name, value, figure.unit);
}

std::string heading(const SweepFigure& figure) {
  std::string text = "<h3>" + escape(figure.title) + "</h3>\n";
  if (!figure.note.empty()) text += "<p class=\"soft\">" + escape(figure.note) + "</p>\n";
  return text;
}

// Texts that would overlap are omitted.
std::vector<Tick> readable(const std::vector<Tick>& ticks, double low, double high) {
  constexpr double character = 7, margin = 10;
  const double units = (chart_width - 80) / (high - low);
  std::vector<Tick> kept;
  double until = -std::numeric_limits<double>::infinity();
  for (const Tick& t : ticks) {
    const double half = static_cast<double>(t.text.size()) * character / 2;
    const double from = t.at * units - half;
    kept.push_back({t.at, from < until ? std::string{} : t.text});
    if (from >= until) until = from + 2 * half + margin;
  }
  return kept;
}

std::string series_css(std::size_t i) {
  return "series" + std::to_string(i);
}

bool bad(const SweepPoint* p) {
  return p != nullptr && p->state == SweepPoint::State::invalid;
}

}  // namespace

std::string curves_chart(const Dim& dim, const SeriesSet& series, const SweepFigure& figure) {
  std::vector<double> x = dim.numbers();
  const auto [least, most] = std::minmax_element(x.begin(), x.end());
  const bool logarithmic = *least > 0 && *most / *least > decade;
  if (logarithmic)
    for (double& v : x) v = std::log10(v);
  std::vector<std::size_t> order(x.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
  const double margin = 0.04 * (x[order.back()] - x[order.front()]);
  const double low = x[order.front()] - margin, high = x[order.back()] + margin;
  std::vector<Tick> columns;
  for (const std::size_t i : order) columns.push_back({x[i], dim.values[i]});

  Svg svg(chart_width, height, figure.title + " over " + dim.key);
  const Frame f = draw_frame(svg, height, low, high, 0, top_of(series, figure),
                             readable(columns, low, high), short_name(dim.key), figure.unit);
  std::vector<std::string> css;
  bool invalid = false;
  for (std::size_t s = 0; s < series.list.size(); ++s) {
    css.push_back(series_css(s));
    std::vector<Point> line;
    for (const std::size_t i : order) {
      const double v = value_of(figure, series.list[s].points[i]);
      if (!std::isfinite(v)) {
        svg.curve(line, css[s]);
        line.clear();
        continue;
      }
      line.push_back({f.x(x[i]), f.y(v)});
    }
    svg.curve(line, css[s]);
    for (const std::size_t i : order) {
      const SweepPoint* p = series.list[s].points[i];
      const double v = value_of(figure, p);
      if (!std::isfinite(v)) continue;
      invalid = invalid || bad(p);
      svg.dot({f.x(x[i]), f.y(v)}, bad(p) ? "lost" : css[s],
              described(figure, short_name(dim.key) + " " + dim.values[i], series.list[s].name, v));
    }
  }
  bool predicted = false;
  for (std::size_t s = 0; s < series.list.size(); ++s) {
    std::vector<Point> line;
    for (const std::size_t i : order)
      if (const double v = predicted_value(figure, series.list[s].points[i]); std::isfinite(v))
        line.push_back({f.x(x[i]), f.y(v)});
    predicted = predicted || !line.empty();
    svg.curve(line, css[s] + " predicted");
  }
  std::vector<LegendEntry> entries;
  for (std::string& c : css) c += " curve";
  for (std::size_t s = 0; s < css.size(); ++s)
    if (!series.list[s].name.empty()) entries.push_back({css[s], series.list[s].name});
  if (invalid) entries.push_back({"lost", "INVALID"});
  if (predicted && figure.of != figure.predicted) entries.push_back({"curve", "dashed: predicted"});
  return heading(figure) + svg.str() + (entries.empty() ? std::string{} : legend(entries));
}

std::string bars_chart(const Dim& dim, const SeriesSet& series, const SweepFigure& figure,
                       const std::vector<Part>& parts) {
  const auto groups = static_cast<double>(dim.values.size());
  const auto bars = static_cast<double>(series.list.size());
  std::vector<Tick> columns;
  for (std::size_t g = 0; g < dim.values.size(); ++g)
    columns.push_back({static_cast<double>(g) + 0.5, dim.values[g]});
  Svg svg(chart_width, height, figure.title + " by " + dim.key);
  const Frame f = draw_frame(svg, height, 0, groups, 0, top_of(series, figure),
                             readable(columns, 0, groups), short_name(dim.key), figure.unit);
  constexpr double widest = 64, filled = 0.8;
  const double place = (f.right - f.left) / groups * filled / bars;
  const double width = std::min(widest, place * 0.9);
  for (std::size_t g = 0; g < dim.values.size(); ++g)
    for (std::size_t s = 0; s < series.list.size(); ++s) {
      const SweepPoint* p = series.list[s].points[g];
      const double middle = f.x(static_cast<double>(g) + 0.5) +
                            (static_cast<double>(s) - (bars - 1) / 2) * (width / 0.9);
      const std::string at = short_name(dim.key) + " " + dim.values[g];
      const double all = value_of(figure, p);
      if (!std::isfinite(all)) {
        svg.text({middle, f.bottom - 6}, p == nullptr ? "" : "–", Anchor::middle, "unit");
        continue;
      }
      double from = 0;
      for (const Part& part : parts) {
        const double v = part.of(*p) * figure.factor;
        if (!(v > 0)) continue;
        svg.box(middle - width / 2, f.y(from + v), width, f.y(from) - f.y(from + v), part.css,
                described(figure, at, series.list[s].name, v) + " " + part.name);
        from += v;
      }
      const bool room = width > 34;
      if (room)
        svg.text({middle, f.y(all) - 5}, fmt::format("{:.4g}", all), Anchor::middle,
                 bad(p) ? "bad" : "strong");
    }
  std::vector<LegendEntry> entries;
  for (const Part& part : parts) {
    const bool drawn = std::any_of(series.list.begin(), series.list.end(), [&](const Series& one) {
      return std::any_of(one.points.begin(), one.points.end(),
                         [&](const SweepPoint* p) { return p != nullptr && part.of(*p) > 0; });
    });
    if (drawn && !part.name.empty()) entries.push_back({part.css, part.name});
  }
  return heading(figure) + svg.str() + (entries.empty() ? std::string{} : legend(entries));
}

}  // namespace shardmark::html
