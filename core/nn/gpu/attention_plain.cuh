// SPDX-License-Identifier: Apache-2.0
// Attention in fp32 without tensor cores: for fp32 data, which is not rounded to TF32, and for long
// heads. Tiles are squares of `Tile` queries and `Tile` keys. Rows in shared memory are one element
// longer than a head, so that neighbouring threads use different banks.
#pragma once

#include <cmath>

#include <core/nn/gpu/attention_problem.cuh>
#include <core/numeric/alibi.hpp>

namespace shardmark::device::plain {

inline constexpr int threads = 256;

/// The shared memory of `matrices` tiles of rows, `squares` tiles of scores and three values per
/// row, in bytes.
template<int Tile>
std::size_t shared_bytes(const Problem& p, int matrices, int squares) {
  return sizeof(float) * static_cast<std::size_t>(matrices * Tile * (p.d + 1) +
                                                  squares * Tile * (Tile + 1) + 3 * Tile);
}

// Copies the rows [first, first + Tile) of a head into shared memory, with zeros beyond the
// sequence.
template<int Tile, class T>
__device__ void load(const Problem& s, const T* head, std::int64_t ld, int first, float* tile) {
  for (int e = threadIdx.x; e < Tile * s.d; e += threads) {
    const int row = e / s.d, c = e % s.d;
    tile[row * (s.d + 1) + c] = first + row < s.sequence ? widen(head[(first + row) * ld + c]) : 0;
  }
}

template<int Tile>
__device__ void clear(const Problem& s, float* tile) {
  for (int e = threadIdx.x; e < Tile * (s.d + 1); e += threads) tile[e] = 0;
}

// Copies the rows of a tile back to global memory, times `factor[row]` if `factor` is given.
template<int Tile, class T>
__device__ void store(const Problem& s, const float* tile, const float* factor, int first, T* head,
                      std::int64_t ld) {
  for (int e = threadIdx.x; e < Tile * s.d; e += threads) {
    const int row = e / s.d, c = e % s.d;
    if (first + row >= s.sequence) continue;
    const float value = tile[row * (s.d + 1) + c];
    round_to(head[(first + row) * ld + c], factor == nullptr ? value : value * factor[row]);
  }
}

__device__ inline float dot(int d, const float* x, const float* y) {
  float sum = 0;
  for (int c = 0; c < d; ++c) sum += x[c] * y[c];
  return sum;
}

// into[row][c] += sum over j of weight[row][j] * x[j][c]; if transposed, of weight[j][row] *
// x[j][c].
template<int Tile>
__device__ void add_product(const Problem& s, const float* weight, bool transposed, const float* x,
                            float* into) {
  for (int e = threadIdx.x; e < Tile * s.d; e += threads) {
    const int row = e / s.d, c = e % s.d;
    float sum = 0;
    for (int j = 0; j < Tile; ++j)
      sum +=
          weight[transposed ? j * (Tile + 1) + row : row * (Tile + 1) + j] * x[j * (s.d + 1) + c];
    into[row * (s.d + 1) + c] += sum;
  }
}

/// A score as softmax reads it, and its derivative by the product of query and key.
struct Score {
  float value, slope;
};
__device__ inline Score score_of(const Problem& s, float alibi_slope, int q, int k, float product) {
  Score score{s.scale * product, s.scale};
  if (s.softcap != 0) {
    const float t = tanhf(score.value / s.softcap);
    score = {s.softcap * t, s.scale * (1 - t * t)};
  }
  score.value += alibi_slope * static_cast<float>(k - q);
  return score;
}
__device__ inline float alibi_slope_of(const Problem& s, int head) {
  return s.alibi == 0 ? 0 : s.alibi * exp2f(alibi_exponent(head, s.heads));
}

template<int Tile, class T>
__global__ void forward_kernel(Problem s, Inputs<T> in, T* out, float* logsumexp) {
  float* const shared = shared_memory<float>();
  const int matrix = Tile * (s.d + 1);
  float *qs = shared, *ks = qs + matrix, *vs = ks + matrix, *sum = vs + matrix;
  float *p = sum + matrix, *top = p + Tile * (Tile + 1), *total = top + Tile,
        *shrink = total + Tile;
  const int first = first_row_later_first(Tile);
  const int head = static_cast<int>(blockIdx.y), sample = static_cast<int>(blockIdx.z);
  const float slope = alibi_slope_of(s, head);
  const T* keys = s.head_of(in.k, s.ld_kv, sample, head / s.group());
  const T* values = s.head_of(in.v, s.ld_kv, sample, head / s.group());
  load<Tile>(s, s.head_of(in.q, s.ld_q, sample, head), s.ld_q, first, qs);
  clear<Tile>(s, sum);
  if (threadIdx.x < Tile) top[threadIdx.x] = -INFINITY, total[threadIdx.x] = 0;
  const int end = s.end_of_keys(first + Tile);
  for (int key = s.first_tile_of_keys(first, Tile); key < end; key += Tile) {
    __syncthreads();
    load<Tile>(s, keys, s.ld_kv, key, ks);
    load<Tile>(s, values, s.ld_kv, key, vs);
    __syncthreads();
    for (int e = threadIdx.x; e < Tile * Tile; e += threads) {
      const int i = e / Tile, j = e % Tile;
      p[i * (Tile + 1) + j] = s.sees(first + i, key + j)
                                  ? score_of(s, slope, first + i, key + j,
                                             dot(s.d, qs + i * (s.d + 1), ks + j * (s.d + 1)))
                                        .value
                                  : -INFINITY;
    }
    __syncthreads();
    if (threadIdx.x < Tile) {
      const int i = threadIdx.x;
      float* row = p + i * (Tile + 1);
      float highest = top[i];
      for (int j = 0; j < Tile; ++j) highest = fmaxf(highest, row[j]);
      // A row beyond the sequence sees no keys, and is not stored; one with a window sees none of
      // an early tile.
      const float base = highest == -INFINITY ? 0 : highest;
      float added = 0;
      for (int j = 0; j < Tile; ++j) {
        row[j] = expf(row[j] - base);
        added += row[j];
      }
      shrink[i] = expf(top[i] - base);
      total[i] = total[i] * shrink[i] + added;
      top[i] = highest;
    }
    __syncthreads();
    for (int e = threadIdx.x; e < Tile * s.d; e += threads)
      sum[e / s.d * (s.d + 1) + e % s.d] *= shrink[e / s.d];
    __syncthreads();
    add_product<Tile>(s, p, false, vs, sum);
  }
  __syncthreads();
  if (threadIdx.x < Tile) {
    const int i = threadIdx.x;
    const EndOfRow row = end_of_row(s, head, top[i], total[i]);
    if (first + i < s.sequence) logsumexp[s.stats(sample, head) + first + i] = row.logsumexp;
    shrink[i] = row.factor;
  }
  __syncthreads();
  store<Tile>(s, sum, shrink, first, s.head_of(out, s.ld_out, sample, head), s.ld_out);
}

// Computes for a tile of queries and a tile of keys the probabilities P again, and the gradient of
// the products of queries and keys, slope * P * (dP - delta).
template<int Tile>
__device__ void tile_gradients(const Problem& s, float alibi_slope, int query, int key,
                               const float* qs, const float* ks, const float* vs, const float* dos,
                               const float* logsumexp, const float* delta, float* p, float* ds) {
  for (int e = threadIdx.x; e < Tile * Tile; e += threads) {
    const int i = e / Tile, j = e % Tile, at = i * (Tile + 1) + j;
    p[at] = ds[at] = 0;
    if (!s.sees(query + i, key + j)) continue;
    const Score score = score_of(s, alibi_slope, query + i, key + j,
                                 dot(s.d, qs + i * (s.d + 1), ks + j * (s.d + 1)));
    p[at] = expf(score.value - logsumexp[query + i]);
    ds[at] = score.slope * p[at] *
             (dot(s.d, dos + i * (s.d + 1), vs + j * (s.d + 1)) - delta[query + i]);
  }
}

template<int Tile, class T>
__global__ void query_gradient_kernel(Problem s, Inputs<T> in, Outcome<T> o, Gradients<T> g) {
  float* const shared = shared_memory<float>();
  const int matrix = Tile * (s.d + 1);
  float *qs = shared, *ks = qs + matrix, *vs = ks + matrix, *dos = vs + matrix, *sum = dos + matrix;
  float *p = sum + matrix, *ds = p + Tile * (Tile + 1);
  const int first = first_row_later_first(Tile);
  const int head = static_cast<int>(blockIdx.y), sample = static_cast<int>(blockIdx.z);
  const int kv_head = head / s.group();
  const std::int64_t stats = s.stats(sample, head);
  load<Tile>(s, s.head_of(in.q, s.ld_q, sample, head), s.ld_q, first, qs);
  load<Tile>(s, s.head_of(o.dout, s.ld_out, sample, head), s.ld_out, first, dos);
  clear<Tile>(s, sum);
  const float slope = alibi_slope_of(s, head);
  const int end = s.end_of_keys(first + Tile);
  for (int key = s.first_tile_of_keys(first, Tile); key < end; key += Tile) {
    __syncthreads();
    load<Tile>(s, s.head_of(in.k, s.ld_kv, sample, kv_head), s.ld_kv, key, ks);
    load<Tile>(s, s.head_of(in.v, s.ld_kv, sample, kv_head), s.ld_kv, key, vs);
    __syncthreads();
    tile_gradients<Tile>(s, slope, first, key, qs, ks, vs, dos, o.logsumexp + stats,
                         o.delta + stats, p, ds);
    __syncthreads();
    add_product<Tile>(s, ds, false, ks, sum);
  }
  __syncthreads();
  store<Tile>(s, sum, nullptr, first, s.head_of(g.q, g.ld_q, sample, head), g.ld_q);
}

// The query heads of a group follow one another, so that their parts are added in one order.
template<int Tile, class T>
__global__ void key_gradient_kernel(Problem s, Inputs<T> in, Outcome<T> o, Gradients<T> g) {
  float* const shared = shared_memory<float>();
  const int matrix = Tile * (s.d + 1);
  float *qs = shared, *ks = qs + matrix, *vs = ks + matrix, *dos = vs + matrix;
  float *dks = dos + matrix, *dvs = dks + matrix, *p = dvs + matrix, *ds = p + Tile * (Tile + 1);
  const int first = static_cast<int>(blockIdx.x) * Tile;
  const int kv_head = static_cast<int>(blockIdx.y), sample = static_cast<int>(blockIdx.z);
  load<Tile>(s, s.head_of(in.k, s.ld_kv, sample, kv_head), s.ld_kv, first, ks);
  load<Tile>(s, s.head_of(in.v, s.ld_kv, sample, kv_head), s.ld_kv, first, vs);
  clear<Tile>(s, dks);
  clear<Tile>(s, dvs);
  for (int head = kv_head * s.group(); head < (kv_head + 1) * s.group(); ++head) {
    const std::int64_t stats = s.stats(sample, head);
    const float slope = alibi_slope_of(s, head);
    for (int query = first; query < s.end_of_queries(first + Tile); query += Tile) {
      __syncthreads();
      load<Tile>(s, s.head_of(in.q, s.ld_q, sample, head), s.ld_q, query, qs);
      load<Tile>(s, s.head_of(o.dout, s.ld_out, sample, head), s.ld_out, query, dos);
      __syncthreads();
      tile_gradients<Tile>(s, slope, query, first, qs, ks, vs, dos, o.logsumexp + stats,
                           o.delta + stats, p, ds);
      __syncthreads();
      add_product<Tile>(s, ds, true, qs, dks);
      add_product<Tile>(s, p, true, dos, dvs);
    }
  }
  __syncthreads();
  store<Tile>(s, dks, nullptr, first, s.head_of(g.k, g.ld_kv, sample, kv_head), g.ld_kv);
  store<Tile>(s, dvs, nullptr, first, s.head_of(g.v, g.ld_kv, sample, kv_head), g.ld_kv);
}

template<int Tile, class T>
void forward(device::Stream stream, const Problem& s, const Inputs<T>& in, T* out,
             float* logsumexp) {
  launch(stream, forward_kernel<Tile, T>, grid_of(s, Tile, s.heads), threads,
         shared_bytes<Tile>(s, 4, 1), s, in, out, logsumexp);
}

template<int Tile, class T>
void backward(device::Stream stream, const Problem& s, const Inputs<T>& in, const Outcome<T>& o,
              const Gradients<T>& g) {
  launch(stream, query_gradient_kernel<Tile, T>, grid_of(s, Tile, s.heads), threads,
         shared_bytes<Tile>(s, 5, 2), s, in, o, g);
  launch(stream, key_gradient_kernel<Tile, T>, grid_of(s, Tile, s.kv_heads), threads,
         shared_bytes<Tile>(s, 6, 2), s, in, o, g);
}

}  // namespace shardmark::device::plain
