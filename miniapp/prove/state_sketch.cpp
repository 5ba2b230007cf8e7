// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <core/random.hpp>
#include <miniapp/prove/state_sketch.hpp>

namespace shardmark {

// A random word serves eight elements: six bits for the bucket and one for the sign of each.
void StateSketch::add(std::span<const float> values, std::int64_t first_elem) {
  constexpr int bits = 7;
  constexpr std::int64_t per_word = 8;
  for (std::size_t i = 0; i < values.size();) {
    const std::int64_t elem = first_elem + static_cast<std::int64_t>(i);
    std::uint64_t random = splitmix64(static_cast<std::uint64_t>(elem / per_word)) >>
                           (bits * static_cast<int>(elem % per_word));
    for (std::int64_t left = per_word - elem % per_word; left > 0 && i < values.size();
         --left, ++i, random >>= bits) {
      const double value = values[i];
      sums[random % buckets] += (random & buckets) != 0 ? value : -value;
    }
  }
}

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
