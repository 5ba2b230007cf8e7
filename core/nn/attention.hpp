// SPDX-License-Identifier: Apache-2.0
// Causal multi-head attention without a stored [sequence][sequence] per layer. It runs over tiles
// of query rows (core/plan/transformer_sizes.hpp): products from the matrix library, a softmax
// kernel of ours between them. Forward keeps one log-sum-exp a row and head, from which backward
// makes the probabilities again (Dao et al., FlashAttention, 2022; Milakov and Gimelshein, 2018).
// A group of heads / kv_heads query heads may share one head of keys and values (Ainslie et al.,
// GQA, 2023).
#pragma once

#include <cstddef>
#include <span>

#include <core/nn/context.hpp>
#include <core/plan/transformer_sizes.hpp>

namespace shardmark {

/// Queries [rows][heads][head_dim], keys and values [rows][kv_heads][head_dim] of which T says the
/// element. `ld_q` and `ld_kv`: distances of rows, so the three may be parts of one matrix.
template<class T>
struct QueryKeyValue {
  T *q, *k, *v;
  std::int64_t ld_q, ld_kv;
};

/// Writes out[rows][hidden] and logsumexp[micro_batch][heads][sequence]. `scores` has
/// attention_tile(dims).score_elems elements.
void attention_forward(const Context& ctx, const TransformerDims& dims,
                       const QueryKeyValue<const float>& in, float* out, float* logsumexp,
                       float* scores, std::span<std::byte> gemm_scratch);

/// From dout, the gradient of `out`, writes all of `gradient`; dk and dv are summed over a group's
/// heads in their order. `scores` and `dscores` have attention_tile(dims).score_elems elements
/// each, `delta` rows * heads.
void attention_backward(const Context& ctx, const TransformerDims& dims,
                        const QueryKeyValue<const float>& in, const float* out,
                        const float* logsumexp, const float* dout,
                        const QueryKeyValue<float>& gradient, float* scores, float* dscores,
                        float* delta, std::span<std::byte> gemm_scratch);

}  // namespace shardmark
