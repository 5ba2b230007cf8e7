// SPDX-License-Identifier: Apache-2.0
// The schedule `paper`, which is that of the ZeRO paper (Rajbhandari et al., 2020, sections 5 and
// 7), unit by unit.
//
//   stage 0  all_reduce of each unit's gradient in the last micro-batch's backward
//   stage 1  reduce_scatter there instead; after the update, all_gather of each unit's parameters
//   stage 2  reduce_scatter in every backward, so that full gradients live for one unit only
//   stage 3  in addition, parameters are gathered unit by unit in forward and again in backward,
//            one unit ahead of the computation, and dropped after their last use in the pass
//
// With run.shard_size each block of so many ranks shares one copy of the states, which is FSDP's
// hybrid sharding. Gathers and reduce_scatters stay within a rank's own block, and the results of
// reductions are all-reduced among the blocks.
#pragma once

#include <core/plan/plan.hpp>

namespace shardmark {

/// Fills partition, groups, slots and segments of `program`, whose head (world, stage, model …) is
/// set. Throws DeckError if run.shard_size does not divide the world.
void write_paper(Program& program, const Deck& deck, const Profile& profile);

}  // namespace shardmark
