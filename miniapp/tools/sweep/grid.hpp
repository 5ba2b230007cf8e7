// SPDX-License-Identifier: Apache-2.0
// The grid of a sweep: which keys of a deck take which values, on how many ranks.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace shardmark {

/// One `--vary`: a key of the deck and its values, as they were written.
struct Axis {
  std::string key;
  std::vector<std::string> values;
};

/// Parses `key.path=value,value`. Commas in brackets, braces and quotes belong to a value. Throws
/// DeckError if there is no key, or if a value is empty or given twice.
Axis parse_axis(const std::string& argument);
/// Throws DeckError like parse_axis, and if a key is given twice.
std::vector<Axis> parse_axes(const std::vector<std::string>& arguments);
/// Parses `1,2,8`: rank counts, ascending and without duplicates. Throws DeckError.
std::vector<int> parse_ranks(const std::string& argument);

/// One point of a grid.
struct GridPoint {
  int ranks = 1;
  std::vector<std::pair<std::string, std::string>> values;  // key and value, by axis

  /// `key=value` for each axis, in the form of `--set`.
  std::vector<std::string> sets() const;
  /// Identifies the point, whatever the order of the axes.
  std::string name() const;
};

/// The largest number of points of a sweep.
inline constexpr std::size_t most_points = 10'000;

/// All combinations: ranks outermost, the last axis innermost. Throws DeckError above most_points.
std::vector<GridPoint> points_of(const std::vector<Axis>& axes, const std::vector<int>& ranks);

/// The last part of a key, for people: `reduce_bucket_size`.
std::string short_name(const std::string& key);

}  // namespace shardmark
