// SPDX-License-Identifier: Apache-2.0
// Rotary positions (Su et al., RoFormer, 2021), theta 10000, in the form that rotates halves: in
// a head of d channels at position p, the pair (j, j + d/2) turns by p * theta^(-2j/d).
#pragma once

#include <core/nn/kernels/storage.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// Rotates q[rows][heads][head_dim] and k[rows][kv_heads][head_dim] in place; head_dim is even.
void rotary_forward(const Context& ctx, const TransformerDims& dims, Stored q, Stored k);

/// Turns the gradients of rotated q and k, in place, into those of q and k: rotates them back.
void rotary_backward(const Context& ctx, const TransformerDims& dims, Stored dq, Stored dk);

}  // namespace shardmark
