// SPDX-License-Identifier: Apache-2.0
// Which modules are linear layers.
#pragma once

#include <core/plan/deck/decoder_modules.hpp>

namespace shardmark {

/// Whether a module of this role multiplies its input by its weight.
inline bool is_linear(Role role) {
  switch (role) {
    case Role::head:
    case Role::router:
    case Role::shared_gate:
    case Role::shared_up:
    case Role::shared_down:
    case Role::shared_router:
    case Role::lora_a:
    case Role::lora_b: return true;
    default: return is_adaptable(role);
  }
}

}  // namespace shardmark
