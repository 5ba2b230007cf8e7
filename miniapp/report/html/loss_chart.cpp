// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include <fmt/core.h>

#include <miniapp/report/html/charts.hpp>

namespace shardmark::html {
namespace {

// A range around the losses, with some room.
std::pair<double, double> range_of(const std::vector<LossRow>& rows) {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const LossRow& r : rows)
    if (std::isfinite(r.loss)) low = std::min(low, r.loss), high = std::max(high, r.loss);
  const double margin = std::max(0.05 * (high - low), 1e-3 * std::max(1.0, std::abs(high)));
  return {low >= 0 ? std::max(0.0, low - margin) : low - margin, high + margin};
}

}  // namespace

Chart loss_chart(const Deck& deck, const Result& r) {
  const auto [low, high] = range_of(r.rows);
  if (!std::isfinite(high - low)) return {};
  const auto first = static_cast<double>(r.rows.front().step);
  const double last = std::max(first + 1, static_cast<double>(r.rows.back().step));
  Chart chart{"Loss over the steps of training",
              {.unit = "step", .low = first, .high = last, .closest = 1},
              {.unit = "loss", .low = low, .high = high},
              280};
  if (const auto warm = std::min(last, static_cast<double>(deck.run.warmup)); warm > first) {
    chart.bands.push_back({first, warm, "warm-up", true, false});
    chart.legend.push_back({"band", "warm-up"});
  }
  Curve loss{"loss", "loss of the global batch", {}};
  Marks skipped{"skipped", "update skipped: gradients overflowed", 9, {}};
  Marks lost{"lost", "loss not finite", 18, {}};
  for (const LossRow& row : r.rows) {
    const auto step = static_cast<double>(row.step);
    loss.data.push_back({step, row.loss});
    if (row.skipped) skipped.at.push_back(step);
    if (!std::isfinite(row.loss)) lost.at.push_back(step);
  }
  const auto end = std::find_if(loss.data.rbegin(), loss.data.rend(),
                                [](const Datum& d) { return std::isfinite(d.y); });
  end->label = fmt::format("{:.4f}", end->y);
  chart.curves = {std::move(loss)};
  chart.marks = {std::move(skipped), std::move(lost)};
  return chart;
}

}  // namespace shardmark::html
