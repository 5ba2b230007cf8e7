// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <core/plan/price/scatter.hpp>
#include <core/plan/price/stragglers.hpp>

namespace shardmark {

double slowest_draw(int n) {
  if (n <= 1) return 0;
  const double above = 1 - (n - 0.375) / (n + 0.25);  // the probability of a slower draw
  const double t = std::sqrt(-2 * std::log(above));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

double rank_skew_s(const RankSkew& skew, int ranks, double work_s) {
  if (skew.ranks <= 1 || skew.points.empty() || ranks <= 1) return 0;
  const TimePoint& shortest = skew.points.front();
  const double measured_s = work_s < shortest.size ? shortest.seconds * work_s / shortest.size
                                                   : on_curve(skew.points, work_s).value;
  return measured_s * slowest_draw(ranks) / slowest_draw(skew.ranks);
}

double straggler_factor(const Machine& machine, int ranks, int ranks_per_node) {
  const double more = slowest_draw(ranks) - slowest_draw(std::min(ranks, ranks_per_node));
  return 1 + machine.jitter.rank_relative_sd * std::max(0.0, more);
}

}  // namespace shardmark
