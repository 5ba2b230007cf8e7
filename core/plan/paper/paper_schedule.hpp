// SPDX-License-Identifier: Apache-2.0
// The schedule `paper`: the ZeRO paper's (Rajbhandari et al., 2020, sections 5 and 7), unit by
// unit.
//
//   stage 0  all_reduce of each unit's gradient in the last micro-batch's backward
//   stage 1  reduce_scatter there instead; after the update, all_gather of each unit's parameters
//   stage 2  reduce_scatter in every backward, so that full gradients live for one unit only
//   stage 3  besides, parameters are gathered unit by unit in forward and again in backward,
//            one unit ahead of the compute, and dropped after their last use in the pass
//
// With run.shard_size states are cut over so many ranks and held by each next so many again: FSDP's
// hybrid sharding. Gathers and reduce_scatters stay in a rank's own block, and what a block has
// reduced is all-reduced among the blocks.
#pragma once

#include <core/plan/plan.hpp>

namespace shardmark {

/// Fills partition, groups, slots and segments of `program`, whose head (world, stage, model …) is
/// set. Throws DeckError where run.shard_size does not divide the world.
void write_paper(Program& program, const Deck& deck, const Profile& profile);

}  // namespace shardmark
