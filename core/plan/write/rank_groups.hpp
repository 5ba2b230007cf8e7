// SPDX-License-Identifier: Apache-2.0
// Groups of ranks below the world, for states that are sharded on two levels. Six ranks in groups
// of three:
//
//     block    0 1 2 | 3 4 5       consecutive ranks, which share one copy of the states
//     stride   0   3 , 1   4 ...   ranks with the same place in their blocks, which hold equal
//     parts
#pragma once

#include <core/plan/plan.hpp>

namespace shardmark {

inline constexpr int no_group = -1;

/// Throws DeckError, which names the key, if the deck's axes or blocks of ranks do not fill the
/// world, which has `all_ranks`.
void require_groups(const Deck& deck, int all_ranks);

/// Adds the world and, if the mesh has more axes than data, its groups.
void add_mesh(Program& program);

/// Adds this rank's block of `size` ranks, or its stride, as group `name` and returns its index.
int add_block(Program& program, std::string name, int size);
int add_stride(Program& program, std::string name, int size);

/// The groups of the schedule `paper` under FSDP's hybrid sharding.
struct ShardGroups {
  int shard = 0;            // gathers and scatters; no_group if each rank holds all states
  int replicas = no_group;  // holds the same shards; no_group if there is one copy
};
/// Adds the groups that run.shard_size requires and sets Program::shard_ranks. There are none if
/// run.shard_size is the world size or the stage shards nothing.
ShardGroups add_shard_groups(Program& program, const Deck& deck);

}  // namespace shardmark
