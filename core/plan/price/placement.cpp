// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include <core/plan/price/machine.hpp>

namespace shardmark {

Machine in_placement(Machine machine, double core_to_core_s) {
  if (machine.placements.empty() || core_to_core_s <= 0) return machine;
  Placement chosen = std::move(
      *nearest_placement(machine.placements.begin(), machine.placements.end(), core_to_core_s));
  machine.placements.clear();
  machine.device.streams = std::move(chosen.streams);
  machine.network = std::move(chosen.network);
  return machine;
}

}  // namespace shardmark
