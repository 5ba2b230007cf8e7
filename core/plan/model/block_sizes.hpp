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

/// What the modules of a block pass on to each other, in the order in which forward makes it. R is
/// the number of rows, h the hidden size, q the channels of all heads and kv those of all key
/// heads; in latent attention l and p are the channels of the latents of keys and of queries, and t
/// those that are rotated. Attention there works on heads as wide as those of queries and keys:
/// values are padded with zeros, and its output loses them again.
enum class Value : std::uint8_t {
  in,         // [R][h], the residual stream
  norm1,      // [R][h]
  q_a,        // [R][p], before its norm
  q_latent,   // [R][p]
  kv_a,       // [R][l + t]
  kv_latent,  // [R][l]
  kv_b,       // [R][heads (plain + value)]
  q_raw,      // [R][q], before its norm
  k_raw,      // [R][kv]
  q,          // [R][q]; joined with k and v: parts of [R][q + 2 kv]
  k,          // [R][kv], once they are exchanged in attention_dims
  v,
  context,    // [R][q], as attention computes it, in attention_dims
  attention,  // [R][q], before the projection; latent: of values
  attn_out,   // [R][h], before the norm after attention
  mid,        // [R][h], the residual stream after attention
  norm2,      // [R][h]
  gate,  // [R][ffn]; joined with up: parts of [R][2 ffn]; without a gate: the activation's input
  up,
  act,      // [R][ffn], the activation's output
  mlp_out,  // [R][h], before the norm after the MLP
  out       // [R][h]
};
template<>
inline constexpr std::size_t enum_size<Value> = 22;

/// What a module reads and what it makes. In a mixture `act` stands for all that is inside, and of
/// modules outside of blocks `in` and `out` are what their unit reads and makes.
struct DataFlow {
  Value reads, makes;
};
DataFlow flow_of(const Decoder& decoder, Role role);

/// Offsets in `saved`, which forward leaves for backward.
struct BlockSaved {
  EnumArray<Value, std::int64_t>
      at{};  // those without a place of their own are where they are made
  EnumArray<Role, NormSaved> norms{};
  std::int64_t logsumexp = 0;                // [micro_batch][heads][sequence], fp32
  std::int64_t sinks = 0;                    // [heads], fp32
  MixtureSaved mixture;                      // in the place of gate and up
  EnumArray<Role, std::int64_t> low_rank{};  // [R][rank], of an adapted role: scaling A x
  std::int64_t bytes = 0;
};

/// Computes the offsets of these tensors, and the bytes of all of them.
BlockSaved block_saved(const TransformerDims& dims);

/// Offsets in the workspace of a block's pass. Tensors overlap only if they are never needed at the
/// same time. At the end, at `gemm`, is the scratch of the matrix products.
struct BlockWorkspace {
  std::int64_t act = 0;        // [R][ffn], the activation's output
  std::int64_t grouped = 0;    // [R][q + 2 kv], before it is arranged, or its gradient; in forward
                               // also what kv_b makes; overlaps act or attention's scratch
  AttentionScratch attention;  // overlaps act
  MixtureWorkspace mixture;    // in the place of act and the gradients of gate and up
  // The gradients of values, which modules pass on to each other. Those of norm1 and norm2
  // overlap act unless the block is parallel, and those of q, k and v overlap those of gate and up.
  // Without norms before, `in` and `mid` are what products add to the residual stream.
  EnumArray<Value, std::int64_t> d{};
  std::int64_t dsub = 0;       // [R][h], the gradient of a sublayer's output
  std::int64_t dlow_rank = 0;  // [R][rank], of A x of the adapted product at hand
  std::int64_t dsinks = 0;     // [heads], fp32
  std::int64_t dside = 0;      // [R][h], what the second norm of a parallel block adds to dx
  std::int64_t gemm = 0;
};

/// Computes these offsets.
BlockWorkspace block_forward_workspace(const TransformerDims& dims);
BlockWorkspace block_backward_workspace(const TransformerDims& dims);

/// The type of the gradient of a value: that of the model, and fp32 for a norm's output, or what
/// stands in its place, whose gradient is a sum over several products.
Dtype gradient_type(const TransformerDims& dims, Value value);

/// The columns of the output and of the input of a product that is no part of a mixture.
Width product_width(const TransformerDims& dims, Role role);

/// The columns of a norm: all that a row of its output has, or those of one head.
std::int64_t norm_columns(const TransformerDims& dims, Role role);

/// Elements from one row of a value to the next. Values that lie beside each other in wider rows
/// have the distance of those.
std::int64_t row_elems(const TransformerDims& dims, Value value);

}  // namespace shardmark
