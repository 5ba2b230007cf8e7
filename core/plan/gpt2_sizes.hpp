// SPDX-License-Identifier: Apache-2.0
// Sizes and layouts of GPT-2's units: where each tensor lies in what a unit's forward saves for its
// backward, and in the workspace that its modules share in one pass. The plan sizes slots with
// these and the kernels of core/nn address memory with these, so nothing is written twice.
//
// GELU's output is recomputed in backward, and attention keeps one log-sum-exp a row and head
// instead of probabilities. LayerNorm's outputs are kept: the product that needs one has no access
// to the norm's weights, which another module owns.
#pragma once

#include <cstdint>

#include <core/plan/deck.hpp>
#include <core/plan/model_shape.hpp>

namespace shardmark {

struct Gpt2Dims {
  std::int64_t layers = 0, hidden = 0, heads = 0, sequence = 0, vocab = 0, micro_batch = 0;
  bool tied_head = false;

  /// Rows of every activation: micro_batch * sequence.
  std::int64_t rows() const { return micro_batch * sequence; }
  std::int64_t head_dim() const { return hidden / heads; }
};

/// Throws PlanError when micro_batch * sequence leaves 63 bits.
Gpt2Dims gpt2_dims(const ModelSpec& spec, std::int64_t micro_batch);

// Offsets, in fp32 elements, in `saved`: what forward leaves for backward. R rows, h hidden.
struct BlockSaved {
  std::int64_t ln1_mean = 0, ln1_rstd = 0;  // [R]
  std::int64_t norm1 = 0;                   // [R][h], output of ln_1
  std::int64_t qkv = 0;                     // [R][3h], a row is q | k | v, heads contiguous in each
  std::int64_t attention = 0;               // [R][h], before the projection
  std::int64_t logsumexp = 0;               // [micro_batch][heads][sequence]
  std::int64_t x_mid = 0;                   // [R][h], the residual stream after attention
  std::int64_t ln2_mean = 0, ln2_rstd = 0;  // [R]
  std::int64_t norm2 = 0;                   // [R][h], output of ln_2
  std::int64_t fc = 0;                      // [R][4h], before GELU
  std::int64_t elems = 0;
};
struct HeadSaved {
  std::int64_t ln_mean = 0, ln_rstd = 0;  // [R]
  std::int64_t norm = 0;                  // [R][h], the output of ln_f
  std::int64_t dlogits = 0;               // [R][vocab], logits first, their gradient after the loss
  std::int64_t row_loss = 0;              // [R]
  std::int64_t elems = 0;
};
BlockSaved block_saved(const Gpt2Dims& dims);
HeadSaved head_saved(const Gpt2Dims& dims);

/// Attention runs over tiles: `query_rows` of one sample times `heads` heads, against all keys that
/// these rows may see. `heads` divides the model's heads; a tile's scores stay in a core's cache.
struct AttentionTile {
  std::int64_t query_rows = 0, heads = 0;
  std::int64_t score_ld = 0;  // distance of score rows: the sequence and a line, off powers of two
  std::int64_t score_elems = 0;  // heads * query_rows * score_ld
};
AttentionTile attention_tile(const Gpt2Dims& dims);

// Offsets, in fp32 elements, in the workspace of a unit's pass; overlaps are tensors that never
// live together; dwide, dnarrow and dnorm go from one module to the next. `gemm` is the matrix
// products' scratch of `gemm_bytes`, at the end.
struct BlockForwardWorkspace {
  std::int64_t act = 0;     // [R][4h], GELU's output
  std::int64_t scores = 0;  // overlaps act
  std::int64_t gemm = 0, gemm_bytes = 0, bytes = 0;
};
struct BlockBackwardWorkspace {
  std::int64_t dwide = 0;                           // [R][4h], gradient of fc; then [R][3h], of qkv
  std::int64_t act = 0;                             // [R][4h], GELU's output
  std::int64_t dnarrow = 0;                         // [R][h], overlaps act
  std::int64_t scores = 0, dscores = 0, delta = 0;  // of attention, overlap act
  std::int64_t gemm = 0, gemm_bytes = 0, bytes = 0;
};
struct HeadForwardWorkspace {
  std::int64_t gemm = 0, gemm_bytes = 0, bytes = 0;
};
struct HeadBackwardWorkspace {
  std::int64_t dnorm = 0;  // [R][h]
  std::int64_t gemm = 0, gemm_bytes = 0, bytes = 0;
};
BlockForwardWorkspace block_forward_workspace(const Gpt2Dims& dims, std::int64_t gemm_cap_bytes);
BlockBackwardWorkspace block_backward_workspace(const Gpt2Dims& dims, std::int64_t gemm_cap_bytes);
HeadForwardWorkspace head_forward_workspace(const Gpt2Dims& dims, std::int64_t gemm_cap_bytes);
HeadBackwardWorkspace head_backward_workspace(const Gpt2Dims& dims, std::int64_t gemm_cap_bytes);

/// fp32 elements that a unit's forward saves for its backward; 0: it saves nothing.
std::int64_t saved_elems(const Gpt2Dims& dims, UnitKind kind);

/// All scratch of a unit's pass (`Kernel::forward` or `Kernel::backward`) in bytes, the matrix
/// products' included; 0: it needs none. Throws PlanError where a count leaves 63 bits.
std::int64_t workspace_bytes(const Gpt2Dims& dims, UnitKind kind, Kernel kernel,
                             std::int64_t gemm_scratch_cap_bytes);

}  // namespace shardmark
