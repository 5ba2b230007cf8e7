// SPDX-License-Identifier: Apache-2.0
// Measured distributions of times, and the expected largest of many draws from them. All pure.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace shardmark {

/// An empirical distribution: values in seconds, and how often each was seen.
struct Distribution {
  struct Value {
    double s = 0;
    std::int64_t count = 0;
  };
  std::vector<Value> values;  // ascending

  bool empty() const { return values.empty(); }
  std::int64_t count() const;
  double mean() const;  // 0 if it is empty
  double largest() const { return empty() ? 0 : values.back().s; }
  /// The smallest value that at least the part `p` of all values does not exceed.
  double quantile(double p) const;
};

Distribution distribution_of(const std::vector<double>& samples);
/// All values of all parts.
Distribution merged(const std::vector<Distribution>& parts);
/// max(0, value - base) of each value.
Distribution above(const Distribution& values, double base);

/// At most about `most` values that keep count, mean and the largest ones: the upper half of the
/// places is for the largest values as they are, the lower half for means of equally many values.
Distribution thinned(const Distribution& values, std::size_t most);

/// The expected largest of `draws` independent draws: the sum over the values v of
/// v (F(v)^draws - F(v-)^draws), where F is the distribution function and F(v-) its limit from
/// below. Never above the largest value that was seen. 0 if the distribution is empty.
double expected_maximum(const Distribution& values, double draws);

/// The expected largest of one independent draw from each part; none may be empty.
double expected_maximum(std::span<const Distribution> parts);

/// The probability that the largest of `draws` further draws exceeds all of the `seen` values: each
/// of the draws + seen values is the largest one equally likely.
double beyond_seen(double draws, std::int64_t seen);

/// A generalised Pareto distribution for values above `from_s`: a value exceeds from_s + y with
/// probability `part` (1 + shape y / scale_s)^(-1/shape).
struct Tail {
  double from_s = 0, part = 0;
  double shape = 0, scale_s = 0;
  std::int64_t samples = 0;  // values to which it was fitted
};

/// A tail for the largest hundredth of the values, but at least for 30 and at most for 1000, by
/// probability-weighted moments (Hosking and Wallis, Technometrics 29, 1987). The shape is kept
/// between -0.5 and 0.75. Empty if there are fewer than 300 values, or if those are equal.
std::optional<Tail> fit_tail(const Distribution& values);

/// The expected largest of `draws` draws, with `tail` in place of the values above tail.from_s.
double expected_maximum(const Distribution& values, const Tail& tail, double draws);

}  // namespace shardmark
