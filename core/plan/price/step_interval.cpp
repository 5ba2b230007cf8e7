// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <core/plan/price/step_interval.hpp>

namespace shardmark {
namespace {

constexpr double guessed_spread = 0.05, normal_90 = 1.645;
// Where a machine file does not say it: of a whole generation of GPUs that was left out, 9 of 10
// published steps are missed by less. `ci/points --crosswise` measures it.
constexpr double other_generation_error_90 = 0.25;
constexpr double most_doublings = 2, worth_saying = 1.05;

}  // namespace

std::vector<BeyondFit> beyond_fit(const FittedOn& f, std::int64_t hidden, int ranks, Dtype type) {
  std::vector<BeyondFit> found;
  const auto far = [&](double times, const std::string& what) {
    if (times >= worth_saying) found.push_back({what, times});
  };
  const auto ratio = [](auto a, auto b) { return static_cast<double>(a) / static_cast<double>(b); };
  if (hidden > 0 && f.least_hidden > 0)
    far(ratio(f.least_hidden, hidden), "a width of " + std::to_string(hidden) +
                                           ", where the narrowest model had " +
                                           std::to_string(f.least_hidden));
  if (hidden > 0 && f.most_hidden > 0)
    far(ratio(hidden, f.most_hidden), "a width of " + std::to_string(hidden) +
                                          ", where the widest model had " +
                                          std::to_string(f.most_hidden));
  if (f.most_ranks > 0)
    far(ratio(ranks, f.most_ranks), std::to_string(ranks) + " ranks, where at most " +
                                        std::to_string(f.most_ranks) + " were measured");
  if (!f.types.empty() && std::ranges::find(f.types, type) == f.types.end())
    far(2, "products of " + std::string(to_string(type)) + ", which nobody measured");
  return found;
}

StepInterval step_interval(const Machine& machine, double times, double host_share) {
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
  const MachineProvenance& p = machine.provenance;
  const double at_home =
      p.held_out_error.value_or(p.crosswise_error_90.value_or(other_generation_error_90));
  const double doublings = std::clamp(std::log2(std::max(times, 1.0)), 0.0, most_doublings);
  const bool host_is_known = p.held_out_error.has_value() || !machine.software.eager;
  const double missed =
      std::hypot(at_home * (1 + doublings), host_is_known ? 0 : host_error_90 * host_share);
  return {std::hypot(spread.below, missed), std::hypot(spread.above, missed)};
}

}  // namespace shardmark
