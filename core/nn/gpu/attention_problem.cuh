// SPDX-License-Identifier: Apache-2.0
// One attention as its kernels see it: the sizes, and the position of a block's rows.
#pragma once

#include <cmath>
#include <cstdint>

#include <core/nn/gpu/attention_kernels.hpp>
#include <core/nn/gpu/block.cuh>

namespace shardmark::device {

/// The sizes of one attention call, where its rows lie, and what happens to its scores.
struct Problem {
  int micro_batch, sequence, heads, kv_heads, d;
  std::int64_t ld_q, ld_kv, ld_out;
  float scale;
  int window;            // keys that a row sees, its own included, at most the sequence
  float softcap, alibi;  // 0: none
  const float* sinks;    // [heads], or null
  bool aligned;          // every row of every head begins at a multiple of 16 bytes

  __device__ int group() const { return heads / kv_heads; }
  /// Returns whether query row `q` may see key row `k`.
  __device__ bool sees(int q, int k) const {
    return k <= q && q - k < window && k < sequence && q < sequence;
  }
  /// Returns the first row of the first tile of keys of which query row `q` sees one.
  __device__ int first_tile_of_keys(int q, int tile) const {
    return q < window ? 0 : (q - window + 1) / tile * tile;
  }
  /// Returns the end of the keys that query rows before `query_end` see.
  __device__ int end_of_keys(int query_end) const {
    return query_end < sequence ? query_end : sequence;
  }
  /// Returns the end of the queries that see a key before `key_end`.
  __device__ int end_of_queries(int key_end) const {
    return sequence - key_end < window - 1 ? sequence : key_end + window - 1;
  }
  /// Returns where a head of a sample begins in a matrix whose rows are ld apart.
  template<class T>
  __device__ T* head_of(T* x, std::int64_t ld, int sample, int head) const {
    return x + static_cast<std::int64_t>(sample) * sequence * ld + head * d;
  }
  /// Returns where the statistics of a head of a sample begin.
  __device__ std::int64_t stats(int sample, int head) const {
    return (static_cast<std::int64_t>(sample) * heads + head) * sequence;
  }
};

/// The matrices of a problem, of type T.
template<class T>
struct Inputs {
  const T *q, *k, *v;
};

/// Rows of the gradients, of type T.
template<class T>
struct Gradients {
  T *q, *k, *v;
  std::int64_t ld_q, ld_kv;
};
/// What backward reads besides the inputs.
template<class T>
struct Outcome {
  const T *out, *dout;
  const float *logsumexp, *delta;
};

/// What a row of queries leaves: its log-sum-exp, and what its sum of values is multiplied by.
struct EndOfRow {
  float logsumexp, factor;
};
/// Returns it for the highest score of a row and the sum of e^(score - top), to which a head's sink
/// adds as one more score.
__device__ inline EndOfRow end_of_row(const Problem& s, int head, float top, float total) {
  if (s.sinks == nullptr) return {top + logf(total), 1.0f / total};
  const float sink = s.sinks[head], highest = fmaxf(top, sink);
  const float shrink = expf(top - highest), sum = total * shrink + expf(sink - highest);
  return {highest + logf(sum), shrink / sum};
}

/// Returns the first row of this block. Later rows see more keys, so their blocks start first and
/// short blocks fill the end.
__device__ inline int first_row_later_first(int tile) {
  return static_cast<int>(gridDim.x - 1 - blockIdx.x) * tile;
}

/// The launch grid: one block per tile of rows, head and sample.
inline dim3 grid_of(const Problem& p, int tile, int heads) {
  return {static_cast<unsigned>((p.sequence + tile - 1) / tile), static_cast<unsigned>(heads),
          static_cast<unsigned>(p.micro_batch)};
}

}  // namespace shardmark::device
