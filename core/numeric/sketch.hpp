// SPDX-License-Identifier: Apache-2.0
// How a sketch of an array is made: each element is added with a random sign to one of a few sums
// (Charikar, Chen and Farach-Colton, "Finding frequent items in data streams", ICALP 2002). Sum and
// sign follow from the element's index alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <core/random.hpp>

namespace shardmark {

inline constexpr std::size_t sketch_buckets = 64;
/// The bits that an element needs, six for the bucket and one for the sign, and the number of
/// elements that one random word serves.
inline constexpr int sketch_bits = 7;
inline constexpr std::int64_t sketch_elems_per_word = 8;

/// Returns the random bits of element `elem` in the lowest places; those of the next elements of
/// the same word follow.
constexpr std::uint64_t sketch_random(std::int64_t elem) {
  return splitmix64(static_cast<std::uint64_t>(elem / sketch_elems_per_word)) >>
         (sketch_bits * static_cast<int>(elem % sketch_elems_per_word));
}
constexpr std::size_t sketch_bucket(std::uint64_t random) {
  return random % sketch_buckets;
}
constexpr double sketch_signed(std::uint64_t random, double value) {
  return (random & sketch_buckets) != 0 ? value : -value;
}

/// Adds p[elems] in host memory to the sums, one element after another; element i of p has the
/// index `first_elem` + i.
inline void sketch_on_host(const float* p, std::int64_t elems, std::int64_t first_elem,
                           std::span<double, sketch_buckets> sums) {
  for (std::int64_t i = 0; i < elems;) {
    const std::int64_t elem = first_elem + i;
    std::uint64_t random = sketch_random(elem);
    const std::int64_t of_word = sketch_elems_per_word - elem % sketch_elems_per_word;
    for (std::int64_t left = of_word; left > 0 && i < elems; --left, ++i, random >>= sketch_bits)
      sums[sketch_bucket(random)] += sketch_signed(random, p[i]);
  }
}

}  // namespace shardmark
