// SPDX-License-Identifier: Apache-2.0
// The modules of Llama besides the token embedding and the head: block and last norm (Touvron et
// al., LLaMA, 2023). core/plan/model/llama_sizes.hpp defines their layouts. Rotary positions and
// attention run in the module of the output projection, where q, k and v are all available.
#pragma once

#include <core/nn/models/module_call.hpp>

namespace shardmark {

/// Run one module, as transformer_forward and transformer_backward describe. They throw PlanError
/// for a role that Llama does not have.
void llama_forward(const ModuleCall& call, Role role, Tensors params);
void llama_backward(const ModuleCall& call, Role role, Tensors params, Gradients grads);

}  // namespace shardmark
