// SPDX-License-Identifier: Apache-2.0
// A sweep's points as drawings see them: dimensions with values, and the curves or groups of bars
// that the other dimensions make over one of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <miniapp/sweep/table.hpp>

namespace shardmark::html {

/// What is varied: an axis, or the ranks.
struct Dim {
  std::string key;
  std::vector<std::string> values;

  /// The values as numbers; empty where one is none, or where they are names (stages).
  std::vector<double> numbers() const;
};
/// Those with two values or more.
std::vector<Dim> dims_of(const Sweep& sweep);

/// One combination of the other dimensions' values, and its points by value of the dimension that
/// is looked at; null: not there.
struct Series {
  std::string name;  // "stage 2, ranks 4"; empty where there is no other dimension
  std::vector<const SweepPoint*> points;
};

/// The curves of one drawing.
struct SeriesSet {
  std::vector<Series> list;  // at most most_series
  std::string held;          // "stage 0": values at which dimensions were held, so that it is
};
inline constexpr std::size_t most_series = 6;
SeriesSet series_over(const Sweep& sweep, const std::vector<Dim>& dims, std::size_t dim);

/// A figure that points have, for an axis of a drawing.
struct Figure {
  std::string title, unit;
  std::string note;                                 // what the title does not say
  double (*of)(const SweepPoint& point) = nullptr;  // not a number: it has none
  double factor = 1;                                // from what `of` gives to the unit
};

/// Curves of a figure over a dimension of numbers.
std::string curves_chart(const Dim& dim, const SeriesSet& series, const Figure& figure);

/// A part of a stacked bar.
struct Part {
  std::string css, name;
  double (*of)(const SweepPoint& point) = nullptr;
};
/// Groups of stacked bars, one a value of the dimension, one bar a series.
std::string bars_chart(const Dim& dim, const SeriesSet& series, const Figure& figure,
                       const std::vector<Part>& parts);

}  // namespace shardmark::html
