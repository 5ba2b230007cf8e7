// SPDX-License-Identifier: Apache-2.0
#include <core/plan/checked.hpp>
#include <core/plan/partition.hpp>

namespace shardmark {

Partition build_partition(const ModelShape& model, int world, int stage) {
  Partition p;
  p.world = world;
  p.sharded = stage > 0;
  for (const Unit& unit : model.units) {
    UnitPartition u{unit.elems, unit.elems, unit.elems};
    if (p.sharded) {
      u.padded = round_up(unit.elems, world, "partition of " + unit.name);
      u.shard = u.padded / world;
    }
    p.padded = checked_add(p.padded, u.padded, "partition");
    p.per_rank += u.shard;
    p.units.push_back(u);
  }
  return p;
}

}  // namespace shardmark
