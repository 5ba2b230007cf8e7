// SPDX-License-Identifier: Apache-2.0
// A sweep's grid: which keys of a deck take which values, on how many ranks.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace shardmark {

/// One `--vary`: a key of the deck and the values that it takes, as they were written.
struct Axis {
  std::string key;
  std::vector<std::string> values;
};

/// `key.path=value,value`. Commas in brackets, braces and quotes belong to a value. Throws
/// DeckError: no key, an empty value, one that comes twice.
Axis parse_axis(const std::string& argument);
/// Throws DeckError as parse_axis, and for a key that comes twice.
std::vector<Axis> parse_axes(const std::vector<std::string>& arguments);
/// `1,2,8`: rank counts, each once, ascending. Throws DeckError.
std::vector<int> parse_ranks(const std::string& argument);

/// One point of a grid.
struct GridPoint {
  int ranks = 1;
  std::vector<std::pair<std::string, std::string>> values;  // key and value, by axis

  /// `key=value` of each axis: what `--set` takes.
  std::vector<std::string> sets() const;
  /// The same and the ranks, whatever the order of the axes: equal for equal points.
  std::string name() const;
};

/// No sweep has more points.
inline constexpr std::size_t most_points = 10'000;

/// All combinations: ranks outermost, the last axis innermost. Throws DeckError above most_points.
std::vector<GridPoint> points_of(const std::vector<Axis>& axes, const std::vector<int>& ranks);

/// The last part of a key, for people: `reduce_bucket_size`.
std::string short_name(const std::string& key);

}  // namespace shardmark
