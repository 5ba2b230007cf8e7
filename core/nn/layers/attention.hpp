// SPDX-License-Identifier: Apache-2.0
// Causal multi-head attention that stores no [sequence][sequence] per layer. It works on tiles of
// query rows (core/plan/model/transformer_sizes.hpp): the matrix library computes the products, and
// a softmax kernel runs between them. Forward keeps one log-sum-exp per row and head, from which
// backward computes the probabilities again (Dao et al., FlashAttention, 2022; Milakov and
// Gimelshein, 2018). A group of heads / kv_heads query heads may share one head of keys and values
// (Ainslie et al., GQA, 2023). With a window, a tile has the keys alone that one of its rows sees.
// A sink is a score of a head that takes part in softmax as if it were that of one more key, which
// has no value (Xiao et al., Efficient Streaming Language Models with Attention Sinks, 2024).
#pragma once

#include <cstddef>
#include <span>

#include <core/nn/kernels/storage.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// Queries [rows][heads][head_dim], keys and values [rows][kv_heads][head_dim]. `ld_q` and `ld_kv`
/// are the distances between rows in elements, so the three may be parts of one matrix. S is Stored
/// or ConstStored.
template<class S>
struct QueryKeyValue {
  S q, k, v;
  std::int64_t ld_q, ld_kv;
};

/// Writes out[rows][heads * head_dim] and logsumexp[micro_batch][heads][sequence]. The offsets of
/// `layout` are relative to `scratch`. All tensors have the type dims.dtype; `sinks`, [heads], is
/// null if there are none.
void attention_forward(const Context& ctx, const TransformerDims& dims,
                       const QueryKeyValue<ConstStored>& in, Stored out, float* logsumexp,
                       std::byte* scratch, const AttentionScratch& layout,
                       std::span<std::byte> gemm_scratch, const float* sinks = nullptr);

/// The sinks, and their gradients, which backward writes; null if there are none.
struct SinkGradients {
  const float* sinks = nullptr;
  float* dsinks = nullptr;
};

/// Writes all of `gradient` from dout, the gradient of `out`. dk and dv are summed over the heads
/// of a group in the order of the heads.
void attention_backward(const Context& ctx, const TransformerDims& dims,
                        const QueryKeyValue<ConstStored>& in, ConstStored out,
                        const float* logsumexp, ConstStored dout,
                        const QueryKeyValue<Stored>& gradient, std::byte* scratch,
                        const AttentionScratch& layout, std::span<std::byte> gemm_scratch,
                        const SinkGradients& sinks = {});

}  // namespace shardmark
