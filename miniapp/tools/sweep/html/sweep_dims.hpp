// SPDX-License-Identifier: Apache-2.0
// The points of a sweep as drawings show them: dimensions with values, and for one dimension the
// curves or groups of bars that the other dimensions make.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <miniapp/charts/chart.hpp>
#include <miniapp/tools/sweep/table.hpp>

namespace shardmark::html {

/// What is varied: the axes of the sweep with at least two values, and the ranks likewise.
std::vector<Axis> dims_of(const Sweep& sweep);
/// The values of one as numbers; empty if one is not a number, or if they are names (stages).
std::vector<double> numbers_of(const Axis& dim);

/// One combination of the other dimensions' values, with its points by value of the dimension that
/// is drawn; null if a point does not exist.
struct Series {
  std::string name;  // "stage 2, ranks 4"; empty if there is no other dimension
  std::vector<const SweepPoint*> points;
};

/// The curves of one drawing.
struct SeriesSet {
  std::vector<Series> list;  // at most most_series
  std::string held;          // "stage 0": the values at which dimensions are fixed, so that it is
};
inline constexpr std::size_t most_series = 6;
SeriesSet series_over(const Sweep& sweep, const std::vector<Axis>& dims, std::size_t dim);

/// What distinguishes a point: its values of the dimensions, "stage 2, ranks 4".
std::string name_of(const SweepPoint& point, const std::vector<Axis>& dims);

/// A figure of points, for an axis of a drawing.
struct SweepFigure {
  using Of = std::function<double(const SweepPoint&)>;
  std::string title, unit;
  std::string note;   // an explanation below the title
  Of of;              // in the unit; NaN: the point has none
  Of predicted = {};  // is drawn over it as a dashed line; may be empty
  std::function<std::vector<BarPart>(const SweepPoint&)> parts = {};  // of a bar; may be empty
  std::vector<Level> levels = {};
  double unit_bytes = 0;  // of the unit, where it is one of bytes

  /// A value in words: "3.03 GiB", "32 B".
  std::string in_words(double value) const;
};

/// Curves of a figure over a dimension of numbers. Axes are logarithmic for powers and for what
/// spans more than a decade.
Chart curves_chart(const Axis& dim, const SeriesSet& series, const SweepFigure& figure);
/// Groups of bars: one group per value of the dimension, one bar per series.
Chart bars_chart(const Axis& dim, const SeriesSet& series, const SweepFigure& figure);
/// One figure against another: a dot for each point, with its name.
Chart scatter_chart(const Sweep& sweep, const std::vector<Axis>& dims, const SweepFigure& over,
                    const SweepFigure& figure);

}  // namespace shardmark::html
