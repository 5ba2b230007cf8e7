// SPDX-License-Identifier: Apache-2.0
// Causal attention as native CUDA kernels: a block a tile of queries or of keys, with the tiles
// that it needs passing through shared memory and a softmax that is kept up as they pass (Dao et
// al., FlashAttention, 2022). Nothing of size sequence x sequence is stored, and there are no
// atomics, so the same input gives the same bits. 16-bit types are multiplied on tensor cores.
#pragma once

#include <cstdint>

#include <cuda_runtime_api.h>

#include <core/plan/deck/types.hpp>

namespace shardmark::device {

/// The sizes of one attention call; `heads` is a multiple of `kv_heads`.
struct AttentionShape {
  std::int64_t micro_batch, sequence, heads, kv_heads, head_dim;
};
inline constexpr std::int64_t most_head_dim = 256;

/// Rows of q are `ld_q` elements apart, those of k and v `ld_kv`; element (row, head, c) lies at
/// row * ld + head * head_dim + c. All of one type: fp32, bf16 or fp16.
struct AttentionInput {
  Dtype dtype;
  const void *q, *k, *v;
  std::int64_t ld_q, ld_kv;
};

/// Where the gradients of q, k and v are written, and how many elements lie between their rows.
struct AttentionGradient {
  void *q, *k, *v;
  std::int64_t ld_q, ld_kv;
};

/// out[rows][heads * head_dim] and logsumexp[micro_batch][heads][sequence], enqueued on `stream`.
/// Throws PlanError for a head_dim above most_head_dim, CommError where a launch fails.
void attention_forward(cudaStream_t stream, const AttentionShape& shape, const AttentionInput& in,
                       void* out, float* logsumexp);

/// Writes all of `gradient`. `delta`: scratch, [micro_batch][heads][sequence].
void attention_backward(cudaStream_t stream, const AttentionShape& shape, const AttentionInput& in,
                        const void* out, const float* logsumexp, const void* dout,
                        const AttentionGradient& gradient, float* delta);

}  // namespace shardmark::device
