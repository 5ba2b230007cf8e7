// SPDX-License-Identifier: Apache-2.0
#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/check.hpp>

namespace shardmark {

Program build_legal_program(const Deck& deck, const Batch& batch, int world, int rank,
                            const Profile& profile) {
  const auto program_of = [&](int r) { return build_program(deck, batch, world, r, profile); };
  Program program = program_of(rank);
  require_legal(check(program));
  require_legal(check_ranks(ranks_to_check(world, rank), program_of));
  return program;
}

}  // namespace shardmark
