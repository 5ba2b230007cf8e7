// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/charts/axis.hpp>
#include <miniapp/charts/text.hpp>

namespace shardmark::html {
namespace {

constexpr double left = 64, beside = 16, top = 34, below = 36;
constexpr int most_grid_lines = 7;

// "500", "200 000", "2 M": of a logarithmic axis.
std::string decade_text(double value) {
  if (value < 1) return fmt::format("{:.2g}", value);
  for (const auto& [size, letter] : {std::pair(1e12, 'T'), {1e9, 'G'}, {1e6, 'M'}})
    if (value >= size) return fmt::format("{:.4g} {}", value / size, letter);
  return value < 1000 ? fmt::format("{:.4g}", value) : grouped(std::llround(value));
}

std::vector<Tick> ticks_of(const ChartAxis& axis, int most) {
  if (!axis.ticks.empty()) return axis.ticks;
  const auto values = axis.log_base > 0 ? power_ticks(*axis.low, *axis.high, most, axis.log_base)
                                        : ticks(*axis.low, *axis.high, most, axis.closest);
  const double distance = values.size() > 1 ? values[1] - values[0] : 1;
  std::vector<Tick> list;
  for (const double v : values)
    list.push_back({v, axis.text != nullptr ? axis.text(v)
                       : axis.log_base > 0  ? decade_text(v)
                                            : tick_text(v, distance)});
  return list;
}

// The lines of a text below an axis: one or two.
std::vector<std::string> lines_of(const std::string& text) {
  const std::size_t end = text.find('\n');
  if (end == std::string::npos) return {text};
  return {text.substr(0, end), text.substr(end + 1)};
}

Scale scale_of(const ChartAxis& axis, double from, double to) {
  return {*axis.low, *axis.high, from, to, axis.log_base > 0};
}

}  // namespace

double text_width(std::string_view text, double width) {
  return static_cast<double>(characters(text)) * character_width(width);
}

double Scale::operator()(double value) const {
  const double part =
      logarithmic ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  return from + part * (to - from);
}

std::vector<double> ticks(double low, double high, int most, double closest) {
  if (!(high > low) || !std::isfinite(high - low)) return {low};
  const double least = std::max(closest, (high - low) / std::max(1, most - 1));
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  double distance = 10 * power;
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least * (1 - 1e-9)) {
      distance = factor * power;
      break;
    }
  std::vector<double> values;
  for (double i = std::ceil(low / distance - 1e-9); i * distance <= high + distance * 1e-9; ++i)
    values.push_back(i * distance);
  return values;
}

std::string tick_text(double value, double distance) {
  if (value == 0) return "0";
  if (std::abs(value) >= 1e7) return fmt::format("{:.3g}", value);
  const int decimals = std::clamp(-static_cast<int>(std::floor(std::log10(distance) + 1e-9)), 0, 9);
  return fmt::format("{:.{}f}", value, decimals);
}

std::vector<double> power_ticks(double low, double high, int most, int base) {
  const auto exponent = [&](double v) { return std::log(v) / std::log(base); };
  const double first = std::floor(exponent(low)), last = std::ceil(exponent(high));
  const auto at = [&](const std::vector<double>& factors, double stride) {
    std::vector<double> values;
    for (double power = first; power <= last; power += stride)
      for (const double factor : factors)
        if (const double v = factor * std::pow(base, power);
            v >= low * (1 - 1e-9) && v <= high * (1 + 1e-9))
          values.push_back(v);
    return values;
  };
  std::vector<double> values = base == 10 ? at({1, 2, 5}, 1) : at({1}, 1);
  if (values.size() < 2) return ticks(low, high, most);
  for (double stride = 1; std::ssize(values) > most; ++stride) values = at({1}, stride);
  return values;
}

Frame draw_frame(Svg& svg, double height, const ChartAxis& x, const ChartAxis& y) {
  const double bottom = height - below, right = svg.width() - beside;
  const Frame f{scale_of(x, left, right), scale_of(y, bottom, top), left, right, top, bottom};
  for (const Tick& row : ticks_of(y, most_grid_lines)) {
    svg.line({left, f.y(row.at)}, {right, f.y(row.at)}, "grid");
    svg.text({left - 8, f.y(row.at) + 4}, row.text, Anchor::end);
  }
  const bool fits = text_width(y.unit, svg.width()) < left - 8;
  svg.text({fits ? left - 8 : 0, top - 16}, y.unit, fits ? Anchor::end : Anchor::start, "unit");
  constexpr double margin = 10;
  double until = -std::numeric_limits<double>::infinity();
  for (const Tick& tick : ticks_of(x, most_columns(svg.width()))) {
    const std::vector<std::string> lines = lines_of(tick.text);
    double half = 0;
    for (const std::string& line : lines) half = std::max(half, text_width(line, svg.width()) / 2);
    const double at = f.x(tick.at);
    svg.line({at, bottom}, {at, bottom + 4}, "axis");
    const double middle = std::clamp(at, half, std::max(half, svg.width() - half));
    if (middle - half < until) continue;
    for (std::size_t i = 0; i < lines.size(); ++i)
      svg.text({middle, bottom + 17 + 14 * static_cast<double>(i)}, lines[i], Anchor::middle);
    until = middle + half + margin;
  }
  svg.line({left, bottom}, {right, bottom}, "axis");
  svg.text({right, bottom + 32}, x.unit, Anchor::end, "unit");
  return f;
}

std::vector<Point> thinned(const std::vector<Point>& points, std::size_t columns) {
  if (points.size() <= 4 * columns) return points;
  const double first = points.front().x, width = points.back().x - first;
  const auto column = [&](const Point& p) {
    return std::min(columns - 1,
                    static_cast<std::size_t>((p.x - first) / width * static_cast<double>(columns)));
  };
  const auto lower = [](const Point& a, const Point& b) { return a.y < b.y; };
  std::vector<Point> kept;
  for (auto begin = points.begin(); begin != points.end();) {
    const std::size_t c = column(*begin);
    const auto end =
        std::find_if(begin, points.end(), [&](const Point& p) { return column(p) != c; });
    auto [low, high] = std::minmax_element(begin, end, lower);
    if (high < low) std::swap(low, high);
    auto last = points.end();
    for (const auto at : {begin, low, high, end - 1}) {
      if (at != last) kept.push_back(*at);
      last = at;
    }
    begin = end;
  }
  return kept;
}

}  // namespace shardmark::html
