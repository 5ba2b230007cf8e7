// SPDX-License-Identifier: Apache-2.0
// Groups of ranks below the world, where states are cut in two levels. Six ranks in threes:
//
//     block    0 1 2 | 3 4 5       ranks that follow each other: they share one copy
//     stride   0   3 , 1   4 ...   ranks with the same place in their blocks: they hold the same
#pragma once

#include <core/plan/plan.hpp>

namespace shardmark {

inline constexpr int no_group = -1;

/// Throws DeckError that names the key where the deck's blocks of ranks do not fill the world.
void require_groups(const Deck& deck, int world);

/// Adds this rank's block of `size` ranks, or its stride, as group `name`; returns its index.
int add_block(Program& program, std::string name, int size);
int add_stride(Program& program, std::string name, int size);

/// Who shares states and who holds the same ones, under `paper`: FSDP's hybrid sharding.
struct ShardGroups {
  int shard = 0;            // group that gathers and scatters; no_group: a rank holds all by itself
  int replicas = no_group;  // group that holds the same shards; no_group: there is one copy
};
/// Adds the groups that run.shard_size calls for, none where it is the world size or the stage cuts
/// nothing, and sets Program::shard_ranks.
ShardGroups add_shard_groups(Program& program, const Deck& deck);

}  // namespace shardmark
