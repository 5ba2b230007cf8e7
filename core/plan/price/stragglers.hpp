// SPDX-License-Identifier: Apache-2.0
// A step waits for its slowest rank, and more ranks have a slower one.
#pragma once

#include <core/plan/price/machine.hpp>

namespace shardmark {

/// The expected maximum of `n` draws from the standard normal distribution, 0 for one draw. Blom's
/// formula (Statistical Estimates and Transformed Beta-Variables, 1958) with the quantile of
/// Abramowitz and Stegun 26.2.23; right to 0.01.
double slowest_draw(int n);

/// By which factor a step of `ranks` ranks takes longer than one of `ranks_per_node` ranks, because
/// equal ranks are not equally fast (Jitter::rank_relative_sd). What was measured on a node
/// contains the slowest rank of the node already.
double straggler_factor(const Machine& machine, int ranks, int ranks_per_node);

}  // namespace shardmark
