// SPDX-License-Identifier: Apache-2.0
// The modules of a block, as its description says.
#pragma once

#include <core/nn/models/module_call.hpp>

namespace shardmark {

/// Runs one module, or a part of its pass, as transformer_forward, transformer_backward and
/// transformer_part describe. Throws PlanError for a role that a block does not have.
void run_block(const ModuleCall& call, Kernel kernel, Role role);

}  // namespace shardmark
