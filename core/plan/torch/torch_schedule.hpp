// SPDX-License-Identifier: Apache-2.0
// The schedule `torch`: what PyTorch's own data parallelism does.
//
//   stage 0  DistributedDataParallel
//   stage 1  the same with ZeroRedundancyOptimizer
//   stage 2  fully_shard with reshard_after_forward=False
//   stage 3  fully_shard
#pragma once

#include <core/plan/plan.hpp>

namespace shardmark {

/// What write_torch does, for stages 0 and 1, and for stages 2 and 3.
void write_ddp(Program& program, const Deck& deck, const Profile& profile);
void write_fsdp(Program& program, const Deck& deck, const Profile& profile);

/// Fills partition, groups, slots and segments of `program`, whose head (world, stage, model …) is
/// set. Throws DeckError if the section `torch` does not fit the model or the number of ranks.
inline void write_torch(Program& program, const Deck& deck, const Profile& profile) {
  program.stage < 2 ? write_ddp(program, deck, profile) : write_fsdp(program, deck, profile);
}

}  // namespace shardmark
