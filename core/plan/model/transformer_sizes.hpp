// SPDX-License-Identifier: Apache-2.0
// Sizes and layouts of decoders: their dimensions, attention's tiles, the embeddings and the head.
// Those of a block are in block_sizes.hpp. The plan sizes slots
// with these functions and the kernels of core/nn address memory with them, so nothing is written
// twice. Tensors have the model's type; sums and the values per row are fp32
// (core/nn/kernels/storage.hpp). Offsets are in bytes and begin at a cache line.
#pragma once

#include <algorithm>
#include <cstdint>

#include <core/plan/deck/deck.hpp>
#include <core/plan/model/model_shape.hpp>

namespace shardmark {

/// What a module of a transformer works on besides its parameters and gradients, with R rows of h
/// elements; without a type, in that of the model. If ranks divide layers as well as experts,
/// `home` has the rows of all lanes (mixture_sizes.hpp), with the tokens, the choices and the
/// weights of these pairs, or the weights' gradients, and the pairs of each lane beside them.
enum class ModuleBuffer : std::uint8_t {
  tokens,           // [micro_batch][sequence + 1], int32
  x_in,             // [R][h], the residual stream
  x_out,            // [R][h]
  dx,               // [R][h], its gradient
  saved,            // what forward saves, as the unit's layout says, saved_elems
  loss,             // fp64: (+)= the micro-batch's mean cross-entropy
  workspace,        // that of the unit, workspace_bytes
  partial,          // [R][h], what the ranks that divide a module add up
  balance,          // the sums of balance_elems, fp32: in a router's forward its layer's
  counts_sent,      // [experts], int32: how many of this rank's rows each one has
  counts_received,  // [ranks][experts of this rank], int32
  home,             // rows of experts that ranks divide, at the rank to which they belong
  away,             // and at the one that has their experts
  pair_tokens,      // int64
  pair_choices,     // int64
  pair_weights,
  lane_pairs  // [lanes], int64
};
template<>
inline constexpr std::size_t enum_size<ModuleBuffer> = 17;

/// What the attention of one layer does to its scores before softmax.
struct AttentionRules {
  std::int64_t window = 0;  // keys that a row sees, its own included; 0: all
  double scale = 0;         // 0: 1 / sqrt(head_dim)
  double softcap = 0;       // 0: none
  double alibi = 0;         // factor of the slopes; 0: none
  bool sinks = false;
  bool operator==(const AttentionRules&) const = default;
};

/// The sizes of a transformer and of one micro-batch.
struct TransformerDims {
  std::int64_t layers = 0, hidden = 0, heads = 0;
  std::int64_t kv_heads = 0;  // heads of keys and values; heads / kv_heads query heads share one
  std::int64_t ffn = 0;       // width of the feed-forward layer
  std::int64_t sequence = 0, vocab = 0, micro_batch = 0;
  Dtype dtype = Dtype::fp32;                // of the model: fp32, bf16 or fp16
  std::int64_t head_channels = 0;           // 0: hidden / heads
  AttentionRules rules = {};                // of the layer at hand
  bool sparse = false;                      // the layer at hand has experts
  EnumArray<Role, LowRankSize> low_rank{};  // the factors of an adapter in the layer at hand
  std::int64_t largest_rank = 0;            // of these; 0: there are none
  // Whose part this is: heads and ffn are those of the part, and `sequence` that of the part of
  // each sample. All other sizes are those of the whole.
  AxisPart part = {}, sequence_part = {};
  AxisPart expert_part = {};  // of each layer's experts
  AxisPart head_part = {};    // of the head's outputs
  SharedDecoder decoder = {};

  /// The rows of every activation: micro_batch * sequence.
  std::int64_t rows() const { return micro_batch * sequence; }
  std::int64_t head_dim() const { return head_channels > 0 ? head_channels : hidden / heads; }
  /// Elements per row of queries.
  std::int64_t q_dim() const { return heads * head_dim(); }
  bool adapts(Role role) const { return low_rank[role].rank > 0; }
  /// Elements per row of logits, with those that fill up the pieces of ranks that divide the head.
  std::int64_t gathered_vocab() const { return head_part.ranks * head_part.most(vocab); }
  /// Elements per row of keys, and of values.
  std::int64_t kv_dim() const { return kv_heads * head_dim(); }
  /// The same while ranks that divide samples exchange them: each rank has at least one head.
  std::int64_t exchanged_kv_dim() const {
    return sequence_part.ranks * sequence_part.most(kv_heads) * head_dim();
  }
};

/// Throws PlanError when micro_batch * sequence leaves 63 bits. A list has no such dimensions.
TransformerDims transformer_dims(const ModelSpec& spec, std::int64_t micro_batch,
                                 Dtype dtype = Dtype::fp32);

/// The sizes with which a rank computes attention: if ranks divide samples, it has whole samples
/// and its part of the heads. A head of keys that several ranks need is on each of them. Source:
/// DeepSpeed 0.19.8's runtime/sequence_parallel/ulysses_sp.py.
TransformerDims attention_dims(const TransformerDims& dims);

/// Returns the sizes with what holds in one layer alone.
TransformerDims dims_of_layer(const TransformerDims& dims, std::int64_t layer);

/// Offsets of the figures of the rows of a norm, fp32. RMSNorm keeps no mean.
struct NormSaved {
  std::int64_t mean = 0, rstd = 0;
};
class Offsets;
/// Takes their places from `offsets`.
NormSaved norm_saved(const TransformerDims& dims, Offsets& offsets, std::int64_t rows);

/// Offsets in `saved` of the embeddings, which is empty unless a norm follows them.
struct EmbeddingSaved {
  std::int64_t embedding = 0;  // [R][h], the norm's input
  NormSaved norm;
  std::int64_t bytes = 0;
};
EmbeddingSaved embedding_saved(const TransformerDims& dims);

/// Offsets in `saved` of the head, which its forward leaves for backward. R is the number of rows
/// and h the hidden size.
struct HeadSaved {
  NormSaved norm;
  std::int64_t norm_out = 0;  // [R][h], the last norm's output
  std::int64_t dlogits = 0;   // [R][vocab] in HeadPieces: the logits, then their gradient
  std::int64_t row_loss = 0;  // [R], fp32
  std::int64_t bytes = 0;
};
HeadSaved head_saved(const TransformerDims& dims);

/// How many tokens of the vocabulary a product of the head covers
/// (core/nn/layers/cross_entropy.hpp). On a host few, so that communication progresses in between:
/// on the matrix tiles of a processor, oneDNN 2.6 is fastest if no side over which a product sums
/// is longer than about 768; the other value keeps the distance between rows off powers of two. On
/// a GPU as many as keep rows aligned and a piece within 2^30 logits, since each product ends with
/// multiprocessors that wait.
constexpr std::int64_t head_piece_columns(const TransformerDims& dims, bool on_host) {
  if (on_host) return dims.dtype == Dtype::fp32 ? 8256 : 768;
  constexpr std::int64_t step = 64, most_logits = std::int64_t{1} << 30;
  const std::int64_t most = std::min(dims.vocab, most_logits / dims.rows());
  return std::max(step, most / step * step);
}

/// The rows of an RMSNorm whose gradient, and that of the weights, a GPU makes in one pass over
/// them, and the number of teams that share the rows: each adds up a part of the weights' gradient.
struct NormTeams {
  static constexpr std::int64_t least_columns = 512, most_columns = 8192, count = 512;
  static constexpr bool take(std::int64_t columns) {
    return columns >= least_columns && columns <= most_columns;
  }
};

/// Attention runs over tiles. A tile has `query_rows` rows of one sample and `heads` heads that
/// share no keys, and all keys that these rows may see. `heads` divides kv_heads, and is 0 only if
/// these are; the scores of a tile stay in a core's cache.
struct AttentionTile {
  std::int64_t query_rows = 0, heads = 0;
  std::int64_t score_ld = 0;     // distance of score rows: the sequence and one line more
  std::int64_t score_elems = 0;  // heads * query_rows * score_ld
};
AttentionTile attention_tile(const TransformerDims& dims);
/// The first key that the rows of a tile see, whose first row is given: 0 without a window.
inline std::int64_t first_key_of_tile(const TransformerDims& dims, std::int64_t first_row) {
  const std::int64_t window = dims.rules.window, oldest = first_row - window + 1;
  return window > 0 && oldest > 0 ? oldest : 0;
}

/// Calls `f(rows, keys)` for the tiles of one sample and one batch of heads: the rows of queries,
/// and the keys that any of them sees.
template<class F>
void for_each_attention_tile(const TransformerDims& dims, const F& f) {
  const std::int64_t most_rows = attention_tile(dims).query_rows;
  for (std::int64_t first = 0; first < dims.sequence; first += most_rows) {
    const std::int64_t rows = dims.sequence - first < most_rows ? dims.sequence - first : most_rows;
    f(rows, first + rows - first_key_of_tile(dims, first));
  }
}

/// Offsets of attention's scratch for the tile at hand; forward needs the scores and probabilities
/// alone. A model in fp32 has its probabilities and the gradient of its scores in the place of the
/// scores, and adds the gradients of keys and values up in their final place.
struct AttentionScratch {
  std::int64_t scores = 0, dscores = 0;          // score_elems, fp32
  std::int64_t probabilities = 0, dproduct = 0;  // the same in the model's type
  std::int64_t dkeys = 0, dvalues = 0;           // [sequence][a tile's heads][head_dim], fp32 sums
  std::int64_t delta = 0;                        // [micro_batch][heads][sequence], fp32
};
AttentionScratch attention_forward_scratch(const TransformerDims& dims, Offsets& offsets);
AttentionScratch attention_backward_scratch(const TransformerDims& dims, Offsets& offsets);

/// Bytes of what the head's backward pass has at the start of its workspace, before the scratch of
/// the matrix products: the gradient of the norm's output, [R][h], fp32, a sum over pieces of the
/// vocabulary. Throws SizeError beyond 63 bits.
std::int64_t head_gradient_bytes(const TransformerDims& dims);

/// Elements of dims.dtype that a unit's forward saves for its backward; 0 if it saves nothing. Of a
/// block the dims are those of its layer.
std::int64_t saved_elems(const TransformerDims& dims, UnitKind kind);

/// Bytes of all scratch of a unit's pass (`Kernel::forward` or `Kernel::backward`), that of the
/// matrix products included; 0 if it needs none. Throws PlanError where a count leaves 63 bits.
std::int64_t workspace_bytes(const TransformerDims& dims, UnitKind kind, Kernel kernel,
                             std::int64_t gemm_scratch_cap_bytes);

}  // namespace shardmark
