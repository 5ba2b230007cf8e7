// SPDX-License-Identifier: Apache-2.0
// The schedule `deepspeed`: the collectives that DeepSpeed 0.19 issues, call by call, with its
// defaults and knobs, and the copies that it makes. The stages have their own folders: stage0,
// stage12 and stage3.
#pragma once

#include <core/plan/plan.hpp>

namespace shardmark {

/// What write_deepspeed does, for one stage.
void write_deepspeed_stage0(Program& program, const Deck& deck, const Profile& profile);
void write_deepspeed_stage12(Program& program, const Deck& deck, const Profile& profile);
void write_deepspeed_stage3(Program& program, const Deck& deck, const Profile& profile);

/// Writes the segments and steps of `program`, whose model, batch, world, rank and precision are
/// set. Throws PlanError, and DeckError if the deck gives too few or too small swap buffers.
inline void write_deepspeed(Program& program, const Deck& deck, const Profile& profile) {
  if (program.stage == 0) return write_deepspeed_stage0(program, deck, profile);
  if (program.stage == 3) return write_deepspeed_stage3(program, deck, profile);
  write_deepspeed_stage12(program, deck, profile);
}

}  // namespace shardmark
