// SPDX-License-Identifier: Apache-2.0
// GPT-2's modules besides the token embedding and the head: position embedding, block, last norm.
// Their layouts are core/plan/model/gpt2_sizes.hpp's.
#pragma once

#include <core/nn/models/module_call.hpp>

namespace shardmark {

/// One module, as transformer_forward and transformer_backward. Throws PlanError for a role that
/// GPT-2 has not.
void gpt2_forward(const ModuleCall& call, Role role, Tensors params);
void gpt2_backward(const ModuleCall& call, Role role, Tensors params, Gradients grads);

}  // namespace shardmark
