// SPDX-License-Identifier: Apache-2.0
// A sketch of a state: a few sums from which the norm of the state, and the norm of the difference
// of two states, can be estimated without keeping either. Element i is added with a random sign to
// one of `buckets` sums (Charikar, Chen and Farach-Colton, "Finding frequent items in data
// streams", ICALP 2002). The sketch is linear, and the sum of its squares is the square of the norm
// within about sqrt(2 / buckets) = 18 %.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>

#include <core/numeric/sketch.hpp>

namespace shardmark {

/// The sketch of one state of one rank.
struct StateSketch {
  static constexpr std::size_t buckets = sketch_buckets;
  std::array<double, buckets> sums{};

  /// The estimate of the norm.
  double norm() const {
    double squares = 0;
    for (const double sum : sums) squares += sum * sum;
    return std::sqrt(squares);
  }
  bool operator==(const StateSketch&) const = default;
};

/// The sketch of a + `factor` * b.
inline StateSketch combine(StateSketch a, const StateSketch& b, double factor) {
  for (std::size_t i = 0; i < StateSketch::buckets; ++i) a.sums[i] += factor * b.sums[i];
  return a;
}

}  // namespace shardmark
