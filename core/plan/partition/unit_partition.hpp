// SPDX-License-Identifier: Apache-2.0
// ZeRO's partition under `paper`: each unit is a flat buffer, padded to a multiple of the number of
// ranks that share it (the world, or run.shard_size) and cut into equal shards. For example, a unit
// of 10 elements on three ranks:
//
//     element   0 1 2 3 | 4 5 6 7 | 8 9 . .      padded 12, shard 4; '.' is padding, always zero
//     rank          0   |    1    |    2
#pragma once

#include <cstdint>
#include <vector>

#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// How one unit is divided into shards.
struct UnitPartition {
  std::int64_t elems = 0;   // of the model, without padding
  std::int64_t padded = 0;  // a multiple of the number of shards (stage 0: elems)
  std::int64_t shard = 0;   // padded / shards (stage 0: elems, since each rank owns all)
};

/// How all units are divided.
struct Partition {
  int shards = 1;  // 1 at stage 0
  std::vector<UnitPartition> units;
  std::int64_t padded = 0;    // the sum over units
  std::int64_t per_rank = 0;  // the sum of shards

  /// First element, within the unit's flat buffer, that `rank` of the world owns.
  std::int64_t offset(int unit, int rank) const { return units[unit].shard * (rank % shards); }
};

/// Throws PlanError when a padded size leaves 63 bits.
Partition build_partition(const ModelShape& model, int shard_ranks, int stage);

}  // namespace shardmark
