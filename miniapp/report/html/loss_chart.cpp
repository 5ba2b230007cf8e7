// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include <miniapp/report/html/charts.hpp>
#include <miniapp/report/html/svg.hpp>

namespace shardmark::html {
namespace {

constexpr double loss_chart_height = 280;

// A range around the losses, with some room.
std::pair<double, double> range_of(const std::vector<LossRow>& rows) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const LossRow& r : rows)
    if (std::isfinite(r.loss)) low = std::min(low, r.loss), high = std::max(high, r.loss);
  const double margin = std::max(0.05 * (high - low), 1e-3 * std::max(1.0, std::abs(high)));
  return {low >= 0 ? std::max(0.0, low - margin) : low - margin, high + margin};
}

void draw_losses(Svg& svg, const Frame& f, const std::vector<LossRow>& rows) {
  std::vector<Point> points;
  const auto draw = [&] {
    svg.curve(thinned(points, 400), "loss");
    points.clear();
  };
  for (const LossRow& row : rows) {
    if (std::isfinite(row.loss))
      points.push_back({f.x(static_cast<double>(row.step)), f.y(row.loss)});
    else
      draw();
  }
  draw();
}

// Draws a mark on the axis for each step for which `is` holds, one mark if several share a place.
// Returns whether there is any.
template<class Is>
bool draw_marks(Svg& svg, const Frame& f, const std::vector<LossRow>& rows, const char* css_class,
                double size, Is is) {
  double last = -std::numeric_limits<double>::infinity();
  for (const LossRow& row : rows) {
    const double x = f.x(static_cast<double>(row.step));
    if (!is(row) || x - last < 1) continue;
    svg.line({x, f.bottom}, {x, f.bottom - size}, css_class);
    last = x;
  }
  return std::isfinite(last);
}

}  // namespace

std::string loss_chart(const Deck& deck, const Result& r, double width) {
  const auto finite = [](const LossRow& row) { return std::isfinite(row.loss); };
  const auto [low, high] = range_of(r.rows);
  if (!std::isfinite(high - low)) return {};
  const auto first = static_cast<double>(r.rows.front().step);
  const double last = std::max(first + 1, static_cast<double>(r.rows.back().step));
  Svg svg(width, loss_chart_height, "Loss over the steps of training");
  const auto warm = std::min(last, static_cast<double>(deck.run.warmup));
  const Frame f = draw_frame(svg, loss_chart_height, first, last, low, high, "step", "loss");
  std::vector<LegendEntry> entries{{"loss", "loss of the global batch"}};
  if (warm > first) {
    svg.box(f.left, f.top, f.x(warm) - f.left, f.bottom - f.top, "band", "warm-up");
    entries.push_back({"band", "warm-up"});
  }
  draw_losses(svg, f, r.rows);
  if (draw_marks(svg, f, r.rows, "skipped", 9, [](const LossRow& row) { return row.skipped; }))
    entries.push_back({"skipped", "update skipped: gradients overflowed"});
  if (draw_marks(svg, f, r.rows, "lost", 18, [&](const LossRow& row) { return !finite(row); }))
    entries.push_back({"lost", "loss not finite"});
  const auto end = std::find_if(r.rows.rbegin(), r.rows.rend(), finite);
  const double x = f.x(static_cast<double>(end->step));
  svg.text({x, f.y(end->loss) - 8}, fmt::format("{:.4f}", end->loss),
           x > f.right - 60 ? Anchor::end : Anchor::start, "strong");
  return svg.str() + legend(entries);
}

}  // namespace shardmark::html
