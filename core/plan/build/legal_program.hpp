// SPDX-License-Identifier: Apache-2.0
// Builds programs that are proved legal before anybody uses them.
#pragma once

#include <cstdint>
#include <vector>

#include <core/plan/plan.hpp>

namespace shardmark {

/// The ranks whose collectives are compared: all ranks of a world of up to 16, otherwise both ends,
/// `rank`, and a few in between. Of a plan with very many `events` fewer ranks are compared, so
/// that planning takes no more than seconds.
std::vector<int> ranks_to_check(int world, int rank, std::int64_t events = 0);
/// Those of the world of `program`, its own rank among them.
std::vector<int> ranks_to_check(const Program& program);

/// Builds what build_program builds, and checks it by itself and together with the collectives of
/// other ranks. Throws PlanError if it is not legal, and what build_program throws.
Program build_legal_program(const Deck& deck, const Batch& batch, int world, int rank,
                            const Profile& profile);

}  // namespace shardmark
