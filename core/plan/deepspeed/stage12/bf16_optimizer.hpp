// SPDX-License-Identifier: Apache-2.0
// The second optimizer class that DeepSpeed has for one combination of stage 1.
#pragma once

#include <core/plan/partition/flat_groups.hpp>
#include <core/plan/plan.hpp>

namespace shardmark {

/// Writes the program where uses_bf16_optimizer holds. `program.partition` is set.
void write_bf16_optimizer(Program& program, const Deck& deck, const Profile& profile,
                          const FlatGroups& groups);

}  // namespace shardmark
