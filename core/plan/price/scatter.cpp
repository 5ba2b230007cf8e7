// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <core/plan/price/machine.hpp>
#include <core/plan/price/scatter.hpp>

namespace shardmark {
namespace {

constexpr std::size_t unknowns = Scatter::most_sizes + 1;
using Row = std::array<double, unknowns>;

// Solves the symmetric system by Gaussian elimination with a pivot per column. Directions in which
// the points do not differ have a zero pivot and get the coefficient 0.
Row solve(std::array<Row, unknowns> a, Row b) {
  std::array<bool, unknowns> used{};
  Row x{};
  std::array<std::size_t, unknowns> row_of{};
  row_of.fill(unknowns);
  for (std::size_t column = 0; column < unknowns; ++column) {
    std::size_t pivot = unknowns;
    for (std::size_t r = 0; r < unknowns; ++r)
      if (!used[r] && (pivot == unknowns || std::abs(a[r][column]) > std::abs(a[pivot][column])))
        pivot = r;
    if (pivot == unknowns || std::abs(a[pivot][column]) < 1e-12) continue;
    used[pivot] = true;
    row_of[column] = pivot;
    for (std::size_t r = 0; r < unknowns; ++r) {
      if (r == pivot) continue;
      const double factor = a[r][column] / a[pivot][column];
      for (std::size_t c = column; c < unknowns; ++c) a[r][c] -= factor * a[pivot][c];
      b[r] -= factor * b[pivot];
    }
  }
  for (std::size_t column = 0; column < unknowns; ++column)
    if (row_of[column] < unknowns) x[column] = b[row_of[column]] / a[row_of[column]][column];
  return x;
}

}  // namespace

void Scatter::add(const Sizes& sizes, double cost) {
  Point p{{}, std::log(cost)};
  for (std::size_t i = 0; i < most_sizes; ++i) p.log_sizes[i] = std::log(sizes[i]);
  for (std::size_t i = 0; i < most_sizes; ++i) {
    low_[i] = points_.empty() ? p.log_sizes[i] : std::min(low_[i], p.log_sizes[i]);
    high_[i] = points_.empty() ? p.log_sizes[i] : std::max(high_[i], p.log_sizes[i]);
  }
  points_.push_back(p);
}

Estimate Scatter::at(const Sizes& sizes) const {
  Sizes x{};
  Estimate e;
  for (std::size_t i = 0; i < most_sizes; ++i) {
    const double wanted = std::log(std::max(sizes[i], 1e-30));
    x[i] = std::clamp(wanted, low_[i], high_[i]);
    e.beyond = std::max(e.beyond, std::exp(std::abs(wanted - x[i])));
  }
  std::vector<std::pair<double, const Point*>> near;
  near.reserve(points_.size());
  for (const Point& p : points_) {
    double d2 = 0;
    for (std::size_t i = 0; i < most_sizes; ++i)
      d2 += (p.log_sizes[i] - x[i]) * (p.log_sizes[i] - x[i]);
    near.emplace_back(d2, &p);
  }
  constexpr std::size_t neighbours = 12;
  const std::size_t count = std::min(neighbours, near.size());
  std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(count), near.end(),
                    [](const auto& a, const auto& b) { return a.first < b.first; });
  near.resize(count);

  // A small pull of all slopes towards zero keeps the fit sound where neighbours lie in a plane.
  constexpr double pull = 0.02;
  const double smallest = distance_ * distance_;
  std::array<Row, unknowns> a{};
  Row b{};
  double weights = 0, lowest = near.front().second->log_cost, highest = lowest;
  for (const auto& [d2, p] : near) {
    const double w = 1 / ((d2 + smallest) * (d2 + smallest));
    weights += w;
    Row row{};
    row[0] = 1;
    for (std::size_t i = 0; i < most_sizes; ++i) row[i + 1] = p->log_sizes[i] - x[i];
    for (std::size_t r = 0; r < unknowns; ++r) {
      for (std::size_t c = 0; c < unknowns; ++c) a[r][c] += w * row[r] * row[c];
      b[r] += w * row[r] * p->log_cost;
    }
    lowest = std::min(lowest, p->log_cost);
    highest = std::max(highest, p->log_cost);
  }
  const double scale = 1 / weights;
  for (std::size_t r = 0; r < unknowns; ++r) {
    for (std::size_t c = 0; c < unknowns; ++c) a[r][c] *= scale;
    b[r] *= scale;
    if (r > 0) a[r][r] += pull;
  }
  // A fit through points on one side only must not run away.
  e.value = std::exp(std::clamp(solve(a, b)[0], lowest - 0.1, highest + 0.1));
  return e;
}

Estimate on_curve(const std::vector<TimePoint>& curve, double size) {
  const TimePoint &first = curve.front(), &last = curve.back();
  if (size <= first.size) return {first.seconds, 1};
  if (size >= last.size) {
    const double factor = size / last.size;
    return {last.seconds * factor, factor};
  }
  const auto above = std::ranges::upper_bound(curve, size, {}, &TimePoint::size);
  const TimePoint &high = *above, &low = *(above - 1);
  const double part = std::log(size / low.size) / std::log(high.size / low.size);
  return {low.seconds * std::pow(high.seconds / low.seconds, part), 1};
}

}  // namespace shardmark
