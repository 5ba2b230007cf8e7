// SPDX-License-Identifier: Apache-2.0
// Llama's modules besides the token embedding and the head: block and last norm (Touvron et al.,
// LLaMA, 2023). Their layouts are core/plan/model/llama_sizes.hpp's. Rotary positions and attention
// run in the output projection's module, where q, k and v are all there.
#pragma once

#include <core/nn/models/module_call.hpp>

namespace shardmark {

/// One module, as transformer_forward and transformer_backward. Throws PlanError for a role that
/// Llama has not.
void llama_forward(const ModuleCall& call, Role role, Tensors params);
void llama_backward(const ModuleCall& call, Role role, Tensors params, Gradients grads);

}  // namespace shardmark
