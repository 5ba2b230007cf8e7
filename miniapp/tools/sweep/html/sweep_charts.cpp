// SPDX-License-Identifier: Apache-2.0
// The drawings of a sweep: curves over numbers, bars over names.
#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/core.h>

#include <miniapp/charts/bars.hpp>
#include <miniapp/tools/sweep/html/sweep_dims.hpp>

namespace shardmark::html {
namespace {

constexpr double decade = 10;  // a ratio of values from which on the axis is logarithmic

double value_of(const SweepFigure& figure, double (*of)(const SweepPoint&),
                const SweepPoint* point) {
  return point == nullptr || of == nullptr ? NAN : of(*point) * figure.factor;
}

std::string described(const SweepFigure& figure, const std::string& at, const std::string& name,
                      double value) {
  return fmt::format("{}{}{}: {:.4g} {}", at, name.empty() ? "" : ", ", name, value, figure.unit);
}

bool bad(const SweepPoint* p) {
  return p != nullptr && p->state == SweepPoint::State::invalid;
}

std::string place(const Dim& dim, std::size_t i) {
  return short_name(dim.key) + " " + dim.values[i];
}

ChartAxis axis_of(const Dim& dim, const std::vector<double>& x,
                  const std::vector<std::size_t>& order) {
  ChartAxis axis{.unit = short_name(dim.key)};
  const double low = x[order.front()], high = x[order.back()];
  const bool logarithmic = low > 0 && high / low > decade;
  axis.log_base = logarithmic ? 10 : 0;
  const double margin = logarithmic ? std::pow(high / low, 0.04) : 0.04 * (high - low);
  axis.low = logarithmic ? low / margin : low - margin;
  axis.high = logarithmic ? high * margin : high + margin;
  for (const std::size_t i : order) axis.ticks.push_back({x[i], dim.values[i]});
  return axis;
}

}  // namespace

std::string curves_chart(const Dim& dim, const SeriesSet& series, const SweepFigure& figure) {
  const std::vector<double> x = dim.numbers();
  std::vector<std::size_t> order(x.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return x[a] < x[b]; });
  Chart chart{figure.title + " over " + dim.key, axis_of(dim, x, order), {figure.unit}};
  std::vector<Curve> dashed;
  bool invalid = false;
  for (const Series& s : series.list) {
    const std::string css = fmt::format("series{}", chart.curves.size());
    Curve curve{css, s.name, {}, Curve::Form::line_and_dots}, predicted{css + " predicted", "", {}};
    for (const std::size_t i : order) {
      const SweepPoint* p = s.points[i];
      const double v = value_of(figure, figure.of, p);
      invalid = invalid || (bad(p) && std::isfinite(v));
      curve.data.push_back(
          {x[i], v, described(figure, place(dim, i), s.name, v), "", bad(p) ? "lost" : ""});
      if (const double w = value_of(figure, figure.predicted, p); std::isfinite(w))
        predicted.data.push_back({x[i], w});
    }
    chart.curves.push_back(std::move(curve));
    if (!predicted.data.empty()) dashed.push_back(std::move(predicted));
  }
  if (invalid) chart.legend.push_back({"lost", "INVALID"});
  if (!dashed.empty()) chart.legend.push_back({"curve", "dashed: predicted"});
  chart.curves.insert(chart.curves.end(), dashed.begin(), dashed.end());
  return titled(figure.title, figure.note, to_html(chart));
}

std::string bars_chart(const Dim& dim, const SeriesSet& series, const SweepFigure& figure,
                       const std::vector<Part>& parts) {
  Bars bars{figure.title + " by " + dim.key, short_name(dim.key), figure.unit, {}};
  for (std::size_t g = 0; g < dim.values.size(); ++g) {
    BarGroup& group = bars.groups.emplace_back(BarGroup{dim.values[g], {}});
    for (const Series& s : series.list) {
      const SweepPoint* p = s.points[g];
      Bar& bar = group.bars.emplace_back();
      bar.bad = bad(p);
      if (!std::isfinite(value_of(figure, figure.of, p))) continue;
      for (const Part& part : parts) {
        const double v = part.of(*p) * figure.factor;
        bar.parts.push_back({part.css, part.name, v,
                             described(figure, place(dim, g), s.name, v) + " " + part.name});
      }
    }
  }
  return titled(figure.title, figure.note, to_html(bars));
}

}  // namespace shardmark::html
