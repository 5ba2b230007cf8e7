// SPDX-License-Identifier: Apache-2.0
// The modules of a block, as its description says.
#pragma once

#include <core/nn/models/module_call.hpp>

namespace shardmark {

/// Run one module, as transformer_forward and transformer_backward describe. They throw PlanError
/// for a role that a block does not have.
void block_forward(const ModuleCall& call, Role role, Tensors tensors);
void block_backward(const ModuleCall& call, Role role, Tensors tensors, Gradients gradients);

/// The rest of the pass of a divided module, as transformer_forward_end describes.
void block_forward_end(const ModuleCall& call, Role role);
void block_backward_end(const ModuleCall& call, Role role);

/// What comes before the pass of exchanged experts, as transformer_forward_begin describes.
void block_forward_begin(const ModuleCall& call, Role role);
void block_backward_begin(const ModuleCall& call, Role role);

}  // namespace shardmark
