// SPDX-License-Identifier: Apache-2.0
// The tensors of latent attention beside q, k and v. Attention works on heads as wide as those of
// queries and keys: values are padded with zeros, and its output loses them again.
#pragma once

#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

class Offsets;

/// Offsets in `saved`. R is the number of rows; l and p are the channels of the latents of keys and
/// of queries, and t those that are rotated.
struct LatentSaved {
  std::int64_t q_a = 0, q_a_out = 0;     // [R][p], before and after the norm
  std::int64_t kv_a = 0;                 // [R][l + t]
  std::int64_t kv_a_out = 0;             // [R][l], after the norm
  std::int64_t q_rstd = 0, kv_rstd = 0;  // [R], fp32, of the norms
};

/// Offsets in the workspace of the backward pass: the gradients of those, and of the keys and
/// values of all heads, [R][heads (plain + value)].
struct LatentWorkspace {
  std::int64_t dq_a = 0, dq_a_out = 0, dkv_a = 0, dkv_a_out = 0, dkv_b = 0;
};

/// Elements per row of the keys and values that kv_b makes.
std::int64_t latent_kv_dim(const TransformerDims& dims);
/// Elements per row of attention's output: heads of values.
std::int64_t value_dim(const TransformerDims& dims);

/// Takes the places of these tensors from `offsets`.
LatentSaved latent_saved(const TransformerDims& dims, Offsets& offsets);
LatentWorkspace latent_workspace(const TransformerDims& dims, Offsets& offsets);

}  // namespace shardmark
