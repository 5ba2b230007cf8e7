// SPDX-License-Identifier: Apache-2.0
// A Llama block: where each tensor lies in the buffer that forward saves for backward, and in the
// workspace that its modules share in one pass.
//
// Each projection is a module of its own, so q, k and v are three matrices, and the two halves of
// SwiGLU are two. The output of SwiGLU is recomputed in backward. q and k are kept rotated.
#pragma once

#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// Offsets in `saved`, which forward leaves for backward. R is the number of rows, h the hidden
/// size.
struct LlamaBlockSaved {
  std::int64_t norm1_rstd = 0;    // [R], fp32
  std::int64_t norm1 = 0;         // [R][h], output of input_norm
  std::int64_t q = 0;             // [R][heads][head_dim]
  std::int64_t k = 0, v = 0;      // [R][kv_heads][head_dim]
  std::int64_t attention = 0;     // [R][h], before the projection
  std::int64_t logsumexp = 0;     // [micro_batch][heads][sequence], fp32
  std::int64_t x_mid = 0;         // [R][h], the residual stream after attention
  std::int64_t norm2_rstd = 0;    // [R], fp32
  std::int64_t norm2 = 0;         // [R][h], output of post_norm
  std::int64_t gate = 0, up = 0;  // [R][ffn]
  std::int64_t bytes = 0;
};

/// Computes the offsets of these tensors, and the bytes of all of them.
LlamaBlockSaved llama_block_saved(const TransformerDims& dims);

/// Offsets in the workspace of a block's pass. Tensors overlap only if they are never needed at the
/// same time. Modules pass the tensors whose names start with d to each other. At the end `gemm` is
/// the scratch of the matrix products, `gemm_bytes` bytes.
struct LlamaBlockForwardWorkspace {
  std::int64_t act = 0;               // [R][ffn], SwiGLU's output
  AttentionForwardScratch attention;  // overlaps act
  std::int64_t gemm = 0, gemm_bytes = 0, bytes = 0;
};

/// Offsets in the workspace of a block's backward pass.
struct LlamaBlockBackwardWorkspace {
  std::int64_t dgate = 0, dup = 0;      // [R][ffn]
  std::int64_t dq = 0, dk = 0, dv = 0;  // as q, k, v; overlap dgate and dup
  std::int64_t act = 0;                 // [R][ffn], SwiGLU's output
  std::int64_t dnorm = 0;               // [R][h], fp32, a sum over projections; overlaps act
  std::int64_t dattention = 0;          // [R][h], the gradient of attention's output, at dnorm
  AttentionBackwardScratch attention;   // overlaps act
  std::int64_t gemm = 0, gemm_bytes = 0, bytes = 0;
};

/// Computes these offsets. The matrix products get at most `gemm_cap_bytes` of scratch.
LlamaBlockForwardWorkspace llama_block_forward_workspace(const TransformerDims& dims,
                                                         std::int64_t gemm_cap_bytes);
LlamaBlockBackwardWorkspace llama_block_backward_workspace(const TransformerDims& dims,
                                                           std::int64_t gemm_cap_bytes);

}  // namespace shardmark
