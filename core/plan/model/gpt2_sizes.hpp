// SPDX-License-Identifier: Apache-2.0
// A GPT-2 block: where each tensor lies in the buffer that forward saves for backward, and in the
// workspace that its modules share in one pass.
//
// GELU's output is recomputed in backward, and attention keeps one log-sum-exp per row and head
// instead of probabilities. The outputs of LayerNorm are kept, since the product that needs one has
// no access to the weights of the norm, which another module owns.
#pragma once

#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// Offsets in `saved`, which forward leaves for backward. R is the number of rows, h the hidden
/// size.
struct Gpt2BlockSaved {
  std::int64_t ln1_mean = 0, ln1_rstd = 0;  // [R], fp32
  std::int64_t norm1 = 0;                   // [R][h], output of ln_1
  std::int64_t qkv = 0;                     // [R][3h], q | k | v in a row, heads contiguous in each
  std::int64_t attention = 0;               // [R][h], before the projection
  std::int64_t logsumexp = 0;               // [micro_batch][heads][sequence], fp32
  std::int64_t x_mid = 0;                   // [R][h], the residual stream after attention
  std::int64_t ln2_mean = 0, ln2_rstd = 0;  // [R], fp32
  std::int64_t norm2 = 0;                   // [R][h], output of ln_2
  std::int64_t fc = 0;                      // [R][4h], before GELU
  std::int64_t bytes = 0;
};

/// Computes the offsets of these tensors, and the bytes of all of them.
Gpt2BlockSaved gpt2_block_saved(const TransformerDims& dims);

/// Offsets in the workspace of a block's pass. Tensors overlap only if they are never needed at the
/// same time. Modules pass dwide and dnarrow to each other. At the end `gemm` is the scratch of the
/// matrix products, `gemm_bytes` bytes.
struct Gpt2BlockForwardWorkspace {
  std::int64_t act = 0;               // [R][4h], GELU's output
  AttentionForwardScratch attention;  // overlaps act
  std::int64_t gemm = 0, gemm_bytes = 0, bytes = 0;
};

/// Offsets in the workspace of a block's backward pass.
struct Gpt2BlockBackwardWorkspace {
  std::int64_t dwide = 0;              // [R][4h], the gradient of fc; then [R][3h], that of qkv
  std::int64_t act = 0;                // [R][4h], GELU's output
  std::int64_t dnarrow = 0;            // [R][h], overlaps act
  AttentionBackwardScratch attention;  // overlaps act
  std::int64_t gemm = 0, gemm_bytes = 0, bytes = 0;
};

/// Computes these offsets. The matrix products get at most `gemm_cap_bytes` of scratch.
Gpt2BlockForwardWorkspace gpt2_block_forward_workspace(const TransformerDims& dims,
                                                       std::int64_t gemm_cap_bytes);
Gpt2BlockBackwardWorkspace gpt2_block_backward_workspace(const TransformerDims& dims,
                                                         std::int64_t gemm_cap_bytes);

}  // namespace shardmark
