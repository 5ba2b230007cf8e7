// SPDX-License-Identifier: Apache-2.0
// `fully_shard` (FSDP2): groups of parameters are gathered right before the forward and the
// backward of their modules, and their gradients are reduced right after it. In backward the group
// before the present one is gathered ahead of its use.
#pragma once

#include <core/plan/plan.hpp>

namespace shardmark {

/// As write_torch, for stages 2 and 3.
void write_fsdp(Program& program, const Deck& deck, const Profile& profile);

}  // namespace shardmark
