// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <miniapp/prove/state_sketch.hpp>

namespace shardmark {

double StateSketch::norm() const {
  double squares = 0;
  for (const double sum : sums) squares += sum * sum;
  return std::sqrt(squares);
}

StateSketch combine(const StateSketch& a, const StateSketch& b, double factor) {
  StateSketch result = a;
  for (std::size_t i = 0; i < StateSketch::buckets; ++i) result.sums[i] += factor * b.sums[i];
  return result;
}

}  // namespace shardmark
