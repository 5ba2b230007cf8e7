// SPDX-License-Identifier: Apache-2.0
// Sizes and layouts that the families of transformers share: their dimensions, attention's tiles
// and the head. A block's are in gpt2_sizes.hpp and llama_sizes.hpp. The plan sizes slots with
// these and the kernels of core/nn address memory with these, so nothing is written twice. Tensors
// are of the model's type, sums and figures of rows fp32 (core/nn/kernels/storage.hpp); offsets are
// in bytes and begin at a line.
#pragma once

#include <cstdint>

#include <core/plan/deck/deck.hpp>
#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// The sizes of a transformer and of one micro-batch.
struct TransformerDims {
  std::int64_t layers = 0, hidden = 0, heads = 0;
  std::int64_t kv_heads = 0;  // heads of keys and values: heads / kv_heads query heads share one
  std::int64_t ffn = 0;       // width of the feed-forward layer
  std::int64_t sequence = 0, vocab = 0, micro_batch = 0;
  bool tied_head = false;
  Family family = Family::gpt2;
  Dtype dtype = Dtype::fp32;  // of the model: fp32, bf16 or fp16

  /// Rows of every activation: micro_batch * sequence.
  std::int64_t rows() const { return micro_batch * sequence; }
  std::int64_t head_dim() const { return hidden / heads; }
  /// Elements of a row of keys, or of values.
  std::int64_t kv_dim() const { return kv_heads * head_dim(); }
};

/// Throws PlanError when micro_batch * sequence leaves 63 bits. A list has no such dimensions.
TransformerDims transformer_dims(const ModelSpec& spec, std::int64_t micro_batch,
                                 Dtype dtype = Dtype::fp32);

/// What the head's forward leaves for backward: offsets in `saved`. R rows, h hidden. RMSNorm keeps
/// no mean.
struct HeadSaved {
  std::int64_t norm_mean = 0, norm_rstd = 0;  // [R], fp32
  std::int64_t norm = 0;                      // [R][h], the last norm's output
  std::int64_t dlogits = 0;   // [R][vocab] in HeadPieces: logits, after the loss their gradient
  std::int64_t row_loss = 0;  // [R], fp32
  std::int64_t bytes = 0;
};
HeadSaved head_saved(const TransformerDims& dims);

/// Attention runs over tiles: `query_rows` of one sample times `heads` heads that share no keys,
/// against all keys that these rows may see. `heads` divides kv_heads; a tile's scores stay in a
/// core's cache.
struct AttentionTile {
  std::int64_t query_rows = 0, heads = 0;
  std::int64_t score_ld = 0;  // distance of score rows: the sequence and a line, off powers of two
  std::int64_t score_elems = 0;  // heads * query_rows * score_ld
};
AttentionTile attention_tile(const TransformerDims& dims);

/// Attention's scratch. A model in fp32 has its probabilities and the gradient of its scores in the
/// scores' place, and sums gradients of keys and values where they go.
struct AttentionForwardScratch {
  std::int64_t scores = 0;         // score_elems, fp32
  std::int64_t probabilities = 0;  // the same in the model's type
};

/// Offsets of what the backward pass of attention needs for the tile at hand.
struct AttentionBackwardScratch {
  std::int64_t scores = 0, dscores = 0;          // score_elems, fp32
  std::int64_t probabilities = 0, dproduct = 0;  // the same in the model's type
  std::int64_t dkeys = 0, dvalues = 0;           // [sequence][a tile's heads][head_dim], fp32 sums
  std::int64_t delta = 0;                        // [micro_batch][heads][sequence], fp32
};
class Offsets;
AttentionForwardScratch attention_forward_scratch(const TransformerDims& dims, Offsets& offsets);
AttentionBackwardScratch attention_backward_scratch(const TransformerDims& dims, Offsets& offsets);

/// Offsets in the workspace of the head's pass. `gemm` is the matrix products'
/// scratch of `gemm_bytes`, at the end.
struct HeadForwardWorkspace {
  std::int64_t gemm = 0, gemm_bytes = 0, bytes = 0;
};

/// Offsets in the workspace of the head's backward pass.
struct HeadBackwardWorkspace {
  std::int64_t dnorm = 0;  // [R][h], fp32: a sum over pieces of the vocabulary
  std::int64_t gemm = 0, gemm_bytes = 0, bytes = 0;
};

/// Computes these offsets. The matrix products get at most `gemm_cap_bytes` of scratch.
HeadForwardWorkspace head_forward_workspace(const TransformerDims& dims,
                                            std::int64_t gemm_cap_bytes);
HeadBackwardWorkspace head_backward_workspace(const TransformerDims& dims,
                                              std::int64_t gemm_cap_bytes);

/// What a unit's forward saves for its backward, in elements of dims.dtype; 0: it saves nothing.
std::int64_t saved_elems(const TransformerDims& dims, UnitKind kind);

/// All scratch of a unit's pass (`Kernel::forward` or `Kernel::backward`) in bytes, the matrix
/// products' included; 0: it needs none. Throws PlanError where a count leaves 63 bits.
std::int64_t workspace_bytes(const TransformerDims& dims, UnitKind kind, Kernel kernel,
                             std::int64_t gemm_scratch_cap_bytes);

}  // namespace shardmark
