// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <core/plan/price/step_interval.hpp>

namespace shardmark {
namespace {

constexpr double guessed_spread = 0.05, normal_90 = 1.645;
// On machine files from datasheets, 9 of 10 published steps that no figure was fitted to are
// missed by less. ci/points measures it.
constexpr double published_error_90 = 0.11;

}  // namespace

StepInterval step_interval(const Machine& machine) {
  const Jitter& j = machine.jitter;
  StepInterval spread{guessed_spread, guessed_spread};
  if (j.step_relative_sd > 0) spread.below = spread.above = normal_90 * j.step_relative_sd;
  if (j.step_quantiles.size() >= 5) {
    const auto at = [&](double p) {
      const double place = p * static_cast<double>(j.step_quantiles.size() - 1);
      const auto low = static_cast<std::size_t>(place);
      const std::size_t high = std::min(low + 1, j.step_quantiles.size() - 1);
      const double part = place - static_cast<double>(low);
      return j.step_quantiles[low] * (1 - part) + j.step_quantiles[high] * part;
    };
    spread = {std::max(0.0, 1 - at(0.05)), std::max(0.0, at(0.95) - 1)};
  }
  const double missed = machine.provenance.held_out_error.value_or(published_error_90);
  return {std::hypot(spread.below, missed), std::hypot(spread.above, missed)};
}

}  // namespace shardmark
