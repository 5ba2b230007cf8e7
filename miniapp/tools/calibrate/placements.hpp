// SPDX-License-Identifier: Apache-2.0
// Where the cores of a machine were during its calibration. The host of a virtual machine moves
// them now and then, so that ranks share a cache in one minute and not in the next one.
#pragma once

#include <limits>
#include <vector>

#include <core/plan/price/machine.hpp>

namespace shardmark {

/// Distances between cores, from `least_s` to below `most_s`.
struct CoreRange {
  double least_s = 0, most_s = std::numeric_limits<double>::infinity();
  bool holds(double core_to_core_s) const {
    return core_to_core_s >= least_s && core_to_core_s < most_s;
  }
};

/// Two ranges if measured distances are of two kinds, near and far, and otherwise none.
std::vector<CoreRange> kinds_of_distances(std::vector<double> distances);

/// Makes the figures of the device and the network the means over all placements, whose tables must
/// list the same sizes.
void average_placements(Machine& machine);

/// Sets the latency and the bandwidth of a level by its points, and its speed beside computation by
/// what it takes from it.
void describe_level(NetworkLevel& level);

}  // namespace shardmark
