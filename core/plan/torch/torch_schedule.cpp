// SPDX-License-Identifier: Apache-2.0
#include <core/plan/torch/torch_schedule.hpp>

namespace shardmark {

void write_torch(Program& program, const Deck& deck, const Profile& profile) {
  if (program.stage < 2) return write_ddp(program, deck, profile);
  write_fsdp(program, deck, profile);
}

}  // namespace shardmark
