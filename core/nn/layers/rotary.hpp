// SPDX-License-Identifier: Apache-2.0
// Rotary positions (Su et al., RoFormer, 2021) with theta 10000, in the form that rotates halves:
// in a head of d channels at position p, the pair (j, j + d/2) is rotated by p * theta^(-2j/d).
#pragma once

#include <core/nn/kernels/storage.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// Rotates q[rows][heads][head_dim] and k[rows][kv_heads][head_dim] in place; head_dim is even.
void rotary_forward(const Context& ctx, const TransformerDims& dims, Stored q, Stored k);

/// Rotates the gradients of the rotated q and k back, in place, so that they become the gradients
/// of q and k.
void rotary_backward(const Context& ctx, const TransformerDims& dims, Stored dq, Stored dk);

}  // namespace shardmark
