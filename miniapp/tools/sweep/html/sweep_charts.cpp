// SPDX-License-Identifier: Apache-2.0
// The drawings of a sweep: curves over numbers, bars over names, dots of one figure against
// another.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/tools/sweep/html/sweep_dims.hpp>

namespace shardmark::html {
namespace {

double value_of(const SweepFigure::Of& of, const SweepPoint* point) {
  return point == nullptr || !of ? NAN : of(*point);
}

std::string described(const SweepFigure& figure, const std::string& at, double value) {
  return at + ": " + figure.in_words(value);
}

bool bad(const SweepPoint* p) {
  return p != nullptr && p->state == SweepPoint::State::invalid;
}

std::string place(const Axis& dim, std::size_t i, const Series& s) {
  return short_name(dim.key) + " " + dim.values[i] + (s.name.empty() ? "" : ", " + s.name);
}

// Whether each value is the smallest one times a power of one factor, which sizes often are.
bool are_powers(const std::vector<double>& sorted) {
  double factor = sorted.back() / sorted.front();
  for (std::size_t i = 1; i < sorted.size(); ++i)
    factor = std::min(factor, sorted[i] / sorted[i - 1]);
  return sorted.size() > 2 && factor > 1 && std::ranges::all_of(sorted, [&](double v) {
           const double power = std::log(v / sorted.front()) / std::log(factor);
           return std::abs(power - std::round(power)) < 1e-3;
         });
}

bool is_logarithmic(const std::vector<double>& sorted) {
  constexpr double decade = 10;
  return sorted.front() > 0 && (sorted.back() / sorted.front() > decade || are_powers(sorted));
}

// Makes room at both sides of the values.
void make_room(ChartAxis& axis, double low, double high, double part) {
  const double margin =
      axis.log_base > 0 ? std::pow(high / low, part) : part * std::max(high - low, 1e-9 * high);
  axis.low = axis.log_base > 0 ? low / margin : low - margin;
  axis.high = axis.log_base > 0 ? high * margin : high + margin;
}

// Both axes follow the values: logarithmic x axes have logarithmic figures beside them.
void scale_axes(Chart& chart, std::vector<double> x, double part) {
  std::ranges::sort(x);
  chart.x.log_base = is_logarithmic(x) ? 10 : 0;
  make_room(chart.x, x.front(), x.back(), part);
  std::vector<double> y;
  for (const Curve& curve : chart.curves)
    for (const Datum& d : curve.data)
      if (std::isfinite(d.y)) y.push_back(d.y);
  std::ranges::sort(y);
  if (chart.x.log_base > 0 && !y.empty() && y.front() > 0 && y.back() / y.front() > 10)
    chart.y.log_base = 10;
}

}  // namespace

std::string SweepFigure::in_words(double value) const {
  if (unit_bytes > 0) return human_bytes(std::llround(value * unit_bytes));
  return four_digits(value) + " " + unit;
}

Chart curves_chart(const Axis& dim, const SeriesSet& series, const SweepFigure& figure) {
  const std::vector<double> x = numbers_of(dim);
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
  Chart chart{figure.title + " over " + dim.key, {short_name(dim.key)}, {figure.unit}};
  std::vector<Curve> dashed;
  bool invalid = false;
  for (const Series& s : series.list) {
    const std::string css = fmt::format("series{}", chart.curves.size());
    Curve curve{css, s.name, {}, Curve::Form::line_and_dots}, predicted{css + " predicted", "", {}};
    for (const std::size_t i : order) {
      const SweepPoint* p = s.points[i];
      const double v = value_of(figure.of, p);
      invalid = invalid || (bad(p) && std::isfinite(v));
      curve.data.push_back(
          {x[i], v, described(figure, place(dim, i, s), v), "", bad(p) ? "lost" : ""});
      if (const double w = value_of(figure.predicted, p); std::isfinite(w))
        predicted.data.push_back({x[i], w});
    }
    chart.curves.push_back(std::move(curve));
    if (!predicted.data.empty()) dashed.push_back(std::move(predicted));
  }
  if (invalid) chart.legend.push_back({"lost", "INVALID"});
  if (!dashed.empty()) chart.legend.push_back({"curve", "dashed: predicted"});
  chart.curves.insert(chart.curves.end(), dashed.begin(), dashed.end());
  for (const std::size_t i : order) chart.x.ticks.push_back({x[i], dim.values[i]});
  scale_axes(chart, x, 0.04);
  chart.levels = figure.levels;
  return chart;
}

Chart bars_chart(const Axis& dim, const SeriesSet& series, const SweepFigure& figure) {
  Chart chart{figure.title + " by " + dim.key, {short_name(dim.key)}, {figure.unit}};
  for (std::size_t g = 0; g < dim.values.size(); ++g) {
    BarGroup& group = chart.bars.emplace_back(BarGroup{dim.values[g], {}});
    for (const Series& s : series.list) {
      const SweepPoint* p = s.points[g];
      Bar& bar = group.bars.emplace_back();
      bar.bad = bad(p);
      const double v = value_of(figure.of, p);
      if (!std::isfinite(v)) continue;
      const std::string at = described(figure, place(dim, g, s), v);
      if (figure.parts)
        bar.parts = figure.parts(*p);
      else
        bar.parts.push_back({"work", "", v});
      for (BarPart& part : bar.parts)
        part.title =
            at + (part.name.empty() ? "" : ", " + part.name + " " + figure.in_words(part.value));
    }
  }
  chart.levels = figure.levels;
  return chart;
}

Chart scatter_chart(const Sweep& sweep, const std::vector<Axis>& dims, const SweepFigure& over,
                    const SweepFigure& figure) {
  Chart chart{figure.title + " against time", {over.unit}, {figure.unit}, 340};
  Curve dots{"series0", "", {}, Curve::Form::dots};
  std::vector<double> x;
  for (const SweepPoint& p : sweep.points) {
    const double at = over.of(p), v = figure.of(p);
    if (!std::isfinite(at) || !std::isfinite(v)) continue;
    x.push_back(at);
    const std::string name = name_of(p, dims);
    dots.data.push_back({at, v, name + ": " + over.in_words(at) + ", " + figure.in_words(v), name,
                         bad(&p) ? "lost" : ""});
  }
  if (x.size() < 2) return {};
  chart.curves = {std::move(dots)};
  scale_axes(chart, x, 0.08);
  chart.levels = figure.levels;
  return chart;
}

}  // namespace shardmark::html
