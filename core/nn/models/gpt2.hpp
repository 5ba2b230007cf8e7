// SPDX-License-Identifier: Apache-2.0
// The modules of GPT-2 besides the token embedding and the head: position embedding, block, and
// last norm. core/plan/model/gpt2_sizes.hpp defines their layouts.
#pragma once

#include <core/nn/models/module_call.hpp>

namespace shardmark {

/// Run one module, as transformer_forward and transformer_backward describe. They throw PlanError
/// for a role that GPT-2 does not have.
void gpt2_forward(const ModuleCall& call, Role role, Tensors params);
void gpt2_backward(const ModuleCall& call, Role role, Tensors params, Gradients grads);

}  // namespace shardmark
