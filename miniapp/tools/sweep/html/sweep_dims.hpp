// SPDX-License-Identifier: Apache-2.0
// The points of a sweep as drawings show them: dimensions with values, and for one dimension the
// curves or groups of bars that the other dimensions make.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <miniapp/tools/sweep/table.hpp>

namespace shardmark::html {

/// Something that is varied: an axis, or the ranks.
struct Dim {
  std::string key;
  std::vector<std::string> values;

  /// The values as numbers; empty if one is not a number, or if they are names (stages).
  std::vector<double> numbers() const;
};
/// The dimensions with at least two values.
std::vector<Dim> dims_of(const Sweep& sweep);

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
SeriesSet series_over(const Sweep& sweep, const std::vector<Dim>& dims, std::size_t dim);

/// A figure of points, for an axis of a drawing.
struct SweepFigure {
  std::string title, unit;
  std::string note;                                 // an explanation below the title
  double (*of)(const SweepPoint& point) = nullptr;  // NaN: the point has none
  double factor = 1;                                // converts the result of `of` to the unit
  double (*predicted)(const SweepPoint& point) = nullptr;  // drawn over it, dashed; may be null
};

/// Curves of a figure over a dimension of numbers.
std::string curves_chart(const Dim& dim, const SeriesSet& series, const SweepFigure& figure);

/// A part of a stacked bar.
struct Part {
  std::string css, name;
  double (*of)(const SweepPoint& point) = nullptr;
};
/// Groups of stacked bars: one group per value of the dimension, one bar per series.
std::string bars_chart(const Dim& dim, const SeriesSet& series, const SweepFigure& figure,
                       const std::vector<Part>& parts);

}  // namespace shardmark::html
