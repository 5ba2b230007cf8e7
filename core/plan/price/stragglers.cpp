// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <core/plan/price/stragglers.hpp>

namespace shardmark {

double slowest_draw(int n) {
  if (n <= 1) return 0;
  const double above = 1 - (n - 0.375) / (n + 0.25);  // the probability of a slower draw
  const double t = std::sqrt(-2 * std::log(above));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

double straggler_factor(const Machine& machine, int ranks, int ranks_per_node) {
  const double more = slowest_draw(ranks) - slowest_draw(std::min(ranks, ranks_per_node));
  return 1 + machine.jitter.rank_relative_sd * std::max(0.0, more);
}

}  // namespace shardmark
