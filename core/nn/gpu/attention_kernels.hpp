// SPDX-License-Identifier: Apache-2.0
// Causal attention as native kernels. One block computes one tile of queries or of keys. The
// tiles that the block needs pass through shared memory, and the softmax is updated with each of
// them (Dao et al., FlashAttention, 2022). Nothing of size sequence x sequence is stored, and there
// are no atomics, so the same input gives the same bits. 16-bit types are multiplied on tensor
// cores.
#pragma once

#include <cstdint>

#include <core/gpu_runtime.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark::device {

/// The sizes of one attention call, whose `heads` is a multiple of `kv_heads`, and what it does to
/// its scores (AttentionRules).
struct AttentionShape {
  std::int64_t micro_batch, sequence, heads, kv_heads, head_dim;
  std::int64_t window = 0;  // keys that a row sees, its own included; 0: all
  double scale = 0;         // 0: 1 / sqrt(head_dim)
  double softcap = 0;       // 0: none
  double alibi = 0;         // factor of the slopes; 0: none
};
inline constexpr std::int64_t max_head_dim = 256;

/// The rows of q are `ld_q` elements apart, those of k and v `ld_kv`; element (row, head, c) is at
/// row * ld + head * head_dim + c. All three have the same type: fp32, bf16 or fp16.
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

/// Writes out[rows][heads * head_dim] and logsumexp[micro_batch][heads][sequence]. `sinks`,
/// [heads], is null if there are none. The work is enqueued on `stream`. Throws PlanError for a
/// head_dim above max_head_dim, and CommError if a launch fails.
void attention_forward(device::Stream stream, const AttentionShape& shape, const AttentionInput& in,
                       void* out, float* logsumexp, const float* sinks = nullptr);

/// Writes all of `gradient`. `delta` is scratch: [micro_batch][heads][sequence]. Enqueued and
/// throws as attention_forward.
void attention_backward(device::Stream stream, const AttentionShape& shape,
                        const AttentionInput& in, const void* out, const float* logsumexp,
                        const void* dout, const AttentionGradient& gradient, float* delta);

/// Writes dsinks[heads], from what forward and attention_backward have written. Enqueued and throws
/// as these.
void sink_gradients(device::Stream stream, const AttentionShape& shape, const float* sinks,
                    const float* logsumexp, const float* delta, float* dsinks);

}  // namespace shardmark::device
