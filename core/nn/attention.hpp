// SPDX-License-Identifier: Apache-2.0
// Causal multi-head attention without a stored [sequence][sequence] per layer. It runs over tiles
// of query rows (core/plan/gpt2_sizes.hpp): products from the matrix library, a softmax kernel of
// ours between them. Forward keeps one log-sum-exp a row and head, from which backward makes the
// probabilities again (Dao et al., FlashAttention, 2022; Milakov and Gimelshein, 2018).
#pragma once

#include <cstddef>
#include <span>

#include <core/nn/context.hpp>
#include <core/plan/gpt2_sizes.hpp>

namespace shardmark {

/// qkv[rows][3h] (q | k | v, heads contiguous) -> out[rows][h],
/// logsumexp[micro_batch][heads][sequence]. `scores` has attention_tile(dims).score_elems elements.
void attention_forward(const Context& ctx, const Gpt2Dims& dims, const float* qkv, float* out,
                       float* logsumexp, float* scores, std::span<std::byte> gemm_scratch);

/// From dout, the gradient of `out`, writes dqkv[rows][3h]. `scores` and `dscores` have
/// attention_tile(dims).score_elems elements each, `delta` rows * heads.
void attention_backward(const Context& ctx, const Gpt2Dims& dims, const float* qkv,
                        const float* out, const float* logsumexp, const float* dout, float* dqkv,
                        float* scores, float* dscores, float* delta,
                        std::span<std::byte> gemm_scratch);

}  // namespace shardmark
