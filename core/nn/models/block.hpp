// SPDX-License-Identifier: Apache-2.0
// The modules of a block, as its description says.
#pragma once

#include <core/nn/models/module_call.hpp>

namespace shardmark {

/// Run one module, as transformer_forward and transformer_backward describe. They throw PlanError
/// for a role that a block does not have.
void block_forward(const ModuleCall& call, Role role, Tensors tensors);
void block_backward(const ModuleCall& call, Role role, Tensors tensors, Gradients gradients);

/// Runs what precedes or finishes a pass, as transformer_part describes.
void block_part(const ModuleCall& call, Kernel kernel, Role role);

}  // namespace shardmark
