// SPDX-License-Identifier: Apache-2.0
// A program that is proved legal before anybody uses it.
#pragma once

#include <core/plan/plan.hpp>

namespace shardmark {

/// Builds what build_program builds, and checks it by itself and together with the programs of
/// other ranks. Throws PlanError if it is not legal, and what build_program throws.
Program build_legal_program(const Deck& deck, const Batch& batch, int world, int rank,
                            const Profile& profile);

}  // namespace shardmark
