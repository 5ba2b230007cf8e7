// SPDX-License-Identifier: Apache-2.0
// Which modules are linear layers.
#pragma once

#include <core/plan/deck/types.hpp>

namespace shardmark {

/// Whether a module of this role multiplies its input by its weight.
constexpr bool is_linear(Role role) {
  switch (role) {
    case Role::qkv:
    case Role::q:
    case Role::k:
    case Role::v:
    case Role::attn_proj:
    case Role::fc:
    case Role::gate:
    case Role::up:
    case Role::mlp_proj:
    case Role::head:
    case Role::router:
    case Role::shared_gate:
    case Role::shared_up:
    case Role::shared_down:
    case Role::shared_router:
    case Role::lora_a:
    case Role::lora_b: return true;
    default: return false;
  }
}

}  // namespace shardmark
