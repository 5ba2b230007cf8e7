// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/deepspeed_schedule.hpp>

namespace shardmark {

void write_deepspeed(Program& program, const Deck& deck, const Profile& profile) {
  if (program.stage == 0) return write_deepspeed_stage0(program, deck, profile);
  if (program.stage == 3) return write_deepspeed_stage3(program, deck, profile);
  write_deepspeed_stage12(program, deck, profile);
}

}  // namespace shardmark
