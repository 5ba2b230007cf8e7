// SPDX-License-Identifier: Apache-2.0
// The block of a decoder: where each tensor lies in the buffer that forward saves for backward, and
// in the workspace that its modules share in one pass. A tensor that a description does not need
// takes no space.
//
// The output of the activation is recomputed in backward, and attention keeps one log-sum-exp per
// row and head instead of probabilities. The outputs of the norms are kept, since the product that
// needs one has no access to the weights of the norm, which another module owns. q and k are kept
// rotated.
#pragma once

#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/model/mixture_sizes.hpp>

namespace shardmark {

/// The tensors of latent attention beside q, k and v, in `saved`. Attention works on heads as wide
/// as those of queries and keys: values are padded with zeros, and its output loses them again. R
/// is the number of rows; l and p are the channels of the latents of keys and of queries, and t
/// those that are rotated.
struct LatentSaved {
  std::int64_t q_a = 0, q_a_out = 0;  // [R][p], before and after the norm
  std::int64_t kv_a = 0;              // [R][l + t]
  std::int64_t kv_a_out = 0;          // [R][l], after the norm
  NormSaved q_norm, kv_norm;
};

/// Offsets in `saved`, which forward leaves for backward. R is the number of rows, h the hidden
/// size, q the channels of all heads and kv those of all key heads.
struct BlockSaved {
  NormSaved norm1, norm2, q_norm, k_norm, post_norm1, post_norm2;
  std::int64_t norm1_out = 0, norm2_out = 0;  // [R][h]
  std::int64_t q = 0, k = 0, v = 0;           // [R][q], [R][kv]; joined: parts of [R][q + 2 kv];
                                              // once they are exchanged in attention_dims
  std::int64_t q_raw = 0, k_raw = 0;          // before their norms
  std::int64_t attention = 0;                 // [R][q], before the projection; latent: of values
  std::int64_t context = 0;                   // as attention computes it, in attention_dims
  std::int64_t logsumexp = 0;                 // [micro_batch][heads][sequence], fp32
  std::int64_t sinks = 0;                     // [heads], fp32
  std::int64_t attn_out = 0, mlp_out = 0;     // [R][h], before the norms after attention and MLP
  std::int64_t x_mid = 0;                     // [R][h], the residual stream after attention
  std::int64_t gate = 0, up = 0;  // [R][ffn]; joined: parts of [R][2 ffn]; without a gate: the
                                  // activation's input and nothing
  LatentSaved latent;
  MixtureSaved mixture;                      // in the place of gate and up
  EnumArray<Role, std::int64_t> low_rank{};  // [R][rank], of an adapted role: scaling A x
  std::int64_t bytes = 0;
};

/// Computes the offsets of these tensors, and the bytes of all of them.
BlockSaved block_saved(const TransformerDims& dims);

/// Offsets in the workspace of a block's pass. Tensors overlap only if they are never needed at the
/// same time. At the end, at `gemm`, is the scratch of the matrix products.
struct BlockForwardWorkspace {
  std::int64_t act = 0;               // [R][ffn], the activation's output
  std::int64_t grouped = 0;           // [R][q + 2 kv], before it is arranged, or what kv_b makes;
                                      // overlaps act
  AttentionForwardScratch attention;  // overlaps act
  MixtureForwardWorkspace mixture;    // in the place of act
  std::int64_t gemm = 0;
};

/// The gradients of these tensors, and of what kv_b makes, [R][heads (plain + value)], in the
/// workspace of the backward pass.
struct LatentWorkspace {
  std::int64_t dq_a = 0, dq_a_out = 0, dkv_a = 0, dkv_a_out = 0, dkv_b = 0;
};

/// Offsets in the workspace of a block's backward pass. Modules pass the tensors whose names start
/// with d to each other.
struct BlockBackwardWorkspace {
  std::int64_t dsub = 0;       // [R][h], the gradient of a sublayer's output
  std::int64_t dlow_rank = 0;  // [R][rank], of A x of the adapted product at hand
  std::int64_t dsinks = 0;     // [heads], fp32
  LatentWorkspace latent;
  std::int64_t dside = 0;           // [R][h], what the second norm of a parallel block adds to dx
  std::int64_t dgate = 0, dup = 0;  // as gate and up
  std::int64_t dq = 0, dk = 0, dv = 0;  // as q, k, v; overlap dgate and dup
  std::int64_t act = 0;                 // [R][ffn], the activation's output
  MixtureBackwardWorkspace mixture;     // in the place of dgate, dup and act
  std::int64_t dnorm1 = 0, dnorm2 = 0;  // [R][h], the gradients of the norms' outputs, in
                                        // dnorm_type; overlap act unless the block is parallel
  std::int64_t dattention = 0;          // [R][q], of attention's output, at dnorm1 or after it
  std::int64_t grouped = 0;             // [R][q + 2 kv]; overlaps attention's scratch
  AttentionBackwardScratch attention;   // overlaps act
  std::int64_t gemm = 0;
};

/// Computes these offsets.
BlockForwardWorkspace block_forward_workspace(const TransformerDims& dims);
BlockBackwardWorkspace block_backward_workspace(const TransformerDims& dims);

/// The type of the gradient of a norm's output: that of the model if one product reads that output,
/// and fp32 if it is a sum over several products.
Dtype dnorm_type(const TransformerDims& dims);

/// Whether the gradient of a sublayer's output differs from that of the residual stream.
bool has_own_output_gradient(const Decoder& decoder);

/// The columns of the output and of the input of a product that is no part of a mixture.
Width product_width(const TransformerDims& dims, Role role);

/// Elements from one row of q, and of k and v, to the next.
std::int64_t q_stride(const TransformerDims& dims);
std::int64_t kv_stride(const TransformerDims& dims);
/// Elements per row of the keys and values that kv_b makes in latent attention.
std::int64_t latent_kv_dim(const TransformerDims& dims);
/// Elements per row of attention's output: heads of values.
std::int64_t value_dim(const TransformerDims& dims);
/// Elements from one row of gate, and of up, to the next.
std::int64_t gate_stride(const TransformerDims& dims);

}  // namespace shardmark
