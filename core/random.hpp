// SPDX-License-Identifier: Apache-2.0
// Counter-based random numbers: every value is a function of (seed, stream, index) alone, so each
// rank can make its own shard, and neither the stage nor the rank count changes a value. constexpr
// without Kokkos: the plan, the decks' token sources and the kernels share it.
#pragma once

#include <cstdint>

namespace shardmark {

/// One step of the SplitMix64 generator from state `x` (Steele, Lea and Flood, OOPSLA 2014).
constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/// Value `i` of `stream` (32 bits) under `seed` (32 bits). Stream t < 10^6: the initial values of
/// the t-th parameter in registration order; stream 10^6 + s: the tokens of step s.
constexpr std::uint64_t mix(std::uint64_t seed, std::uint64_t stream, std::uint64_t i) {
  return splitmix64(splitmix64(seed << 32 | stream) + i);
}

}  // namespace shardmark
