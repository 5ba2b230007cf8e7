// SPDX-License-Identifier: Apache-2.0
// How far measured steps may lie from a predicted one.
#pragma once

#include <core/plan/price/machine.hpp>

namespace shardmark {

/// The parts of a predicted step by which steps fall below and rise above it: 9 of 10 lie between.
struct StepInterval {
  double below = 0, above = 0;
};

/// From the differences between repeated steps and from what the machine file's figures are worth:
/// of a machine that was measured the error of points that were left out, of other machines the
/// error of published steps.
StepInterval step_interval(const Machine& machine);

}  // namespace shardmark
