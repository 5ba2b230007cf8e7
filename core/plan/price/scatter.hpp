// SPDX-License-Identifier: Apache-2.0
// A time as a smooth function of a few sizes, known at scattered measured points. It interpolates
// the logarithm of a cost (seconds per unit of work) over the logarithms of the sizes: a local
// linear fit through the nearest points, weighted by 1 / distance^4 (moving least squares;
// Lancaster and Salkauskas, 1981). At a measured point it gives the measured value, unless the
// constructor is given a distance over which points are averaged.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace shardmark {

/// An interpolated value and how far it lies outside of what was measured.
struct Estimate {
  double value = 0;
  double beyond = 1;  // the largest ratio by which a size leaves the range of the points; 1: none
};

class Scatter {
 public:
  static constexpr std::size_t most_sizes = 4;
  using Sizes = std::array<double, most_sizes>;  // all positive; unused ones are 1

  /// Points within `distance`, in logarithms of sizes, count about the same, so that the noise of
  /// one point does not decide.
  explicit Scatter(double distance = 0.01) : distance_(distance) {}

  /// `cost` is positive.
  void add(const Sizes& sizes, double cost);
  bool empty() const { return points_.empty(); }
  std::size_t size() const { return points_.size(); }
  /// The cost at `sizes`; there must be a point. Beyond the range of the points it keeps the cost
  /// at the edge.
  Estimate at(const Sizes& sizes) const;

 private:
  struct Point {
    Sizes log_sizes;
    double log_cost;
  };
  double distance_;
  std::vector<Point> points_;
  Sizes low_{}, high_{};
};

/// The time at `size` on a curve of ascending sizes: interpolated linearly between the logarithms;
/// before the first point constant, beyond the last one proportional to the size. There must be a
/// point.
struct TimePoint;
Estimate on_curve(const std::vector<TimePoint>& curve, double size);

}  // namespace shardmark
