// SPDX-License-Identifier: Apache-2.0
// How far measured steps may lie from a predicted one.
#pragma once

#include <string>
#include <vector>

#include <core/plan/price/machine.hpp>

namespace shardmark {

/// The parts of a predicted step by which steps fall below and rise above it: 9 of 10 lie between.
struct StepInterval {
  double below = 0, above = 0;
};

/// What a step has that the figures of a machine file were not fitted on.
struct BeyondFit {
  std::string what;  // "a width of 512, where the narrowest model had 768"
  double times = 1;  // how far beyond; another type counts as 2
};

/// What a step of a model of this width, on so many ranks and in this type, has beyond what the
/// figures were fitted on. `hidden` 0: not a transformer. Empty where a file does not say what it
/// was fitted on.
std::vector<BeyondFit> beyond_fit(const FittedOn& fitted, std::int64_t hidden, int ranks,
                                  Dtype type);

/// By how much more or less the host takes on 9 of 10 machines for what it launches: processors and
/// the software around a model differ (Gaussian, with a standard deviation of 0.3).
inline constexpr double host_error_90 = 0.5;

/// From the differences between repeated steps and from what the machine file's figures are worth:
/// of a machine that was measured the error of points that were left out, of other machines that of
/// published steps that were left out when the figures were fitted. `times` says how far the step
/// lies beyond what the figures come from: the interval grows by that error for each doubling, up
/// to three times. `host_share` is the part of the step in which the host of eager software limits
/// it: there nobody has measured this host.
StepInterval step_interval(const Machine& machine, double times = 1, double host_share = 0);

}  // namespace shardmark
