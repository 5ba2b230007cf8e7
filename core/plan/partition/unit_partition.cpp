// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deck/checked.hpp>
#include <core/plan/partition/unit_partition.hpp>

namespace shardmark {

Partition build_partition(const ModelShape& model, int shard_ranks, int stage) {
  Partition p;
  p.shards = stage > 0 ? shard_ranks : 1;
  for (const Unit& unit : model.units) {
    UnitPartition u{unit.elems};
    u.padded = round_up(unit.elems, p.shards, "partition of " + unit.name);
    u.shard = u.padded / p.shards;
    p.padded = checked_add(p.padded, u.padded, "partition");
    p.per_rank += u.shard;
    p.units.push_back(u);
  }
  return p;
}

}  // namespace shardmark
