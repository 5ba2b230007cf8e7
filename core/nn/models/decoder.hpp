// SPDX-License-Identifier: Apache-2.0
// The modules of a decoder besides the token embedding and the head: position embedding, block and
// last norm, as its description says. core/plan/model/block_sizes.hpp defines their layouts.
#pragma once

#include <core/nn/models/module_call.hpp>

namespace shardmark {

/// Run one module, as transformer_forward and transformer_backward describe. They throw PlanError
/// for a role that the description does not have.
void decoder_forward(const ModuleCall& call, Role role, Tensors params);
void decoder_backward(const ModuleCall& call, Role role, Tensors params, Gradients grads);

/// The rest of the pass of a divided module, as transformer_forward_end describes.
void decoder_forward_end(const ModuleCall& call, Role role);
void decoder_backward_end(const ModuleCall& call, Role role);

/// What comes before the pass of exchanged experts, as transformer_forward_begin describes.
void decoder_forward_begin(const ModuleCall& call, Role role);
void decoder_backward_begin(const ModuleCall& call, Role role);

/// Attention of ranks that divide samples, as transformer_attention describes.
void decoder_attention(const ModuleCall& call);
void decoder_attention_backward(const ModuleCall& call);

}  // namespace shardmark
