// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include <core/plan/price/machine.hpp>

namespace shardmark {

Machine in_placement(Machine machine, double core_to_core_s) {
  if (machine.placements.empty() || core_to_core_s <= 0) return machine;
  const auto distance = [&](const Placement& p) {
    return std::abs(std::log(p.core_to_core_s / core_to_core_s));
  };
  const auto nearest = std::min_element(
      machine.placements.begin(), machine.placements.end(),
      [&](const Placement& a, const Placement& b) { return distance(a) < distance(b); });
  Placement chosen = std::move(*nearest);
  machine.placements.clear();
  machine.device.streams = std::move(chosen.streams);
  machine.network = std::move(chosen.network);
  return machine;
}

}  // namespace shardmark
