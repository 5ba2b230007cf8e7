// SPDX-License-Identifier: Apache-2.0
// Attention of 16-bit types on tensor cores, with sums in fp32 (after Dao, FlashAttention-2, 2023).
// A block processes 64 rows, 16 per warp, against 64 rows of the other side at a time. Scores stay
// in registers: the result of one product has the layout of the left operand of the next. Backward
// has one kernel for the gradients of queries and one for those of keys and values. Both compute
// the scores again, which avoids sums by atomics and gives the same bits every time.
#pragma once

#include <cmath>

#include <core/nn/cuda/attention_problem.cuh>

namespace shardmark::device::tensor {

inline constexpr int tile = 64, warp_rows = 16, threads = 32 * tile / warp_rows;

/// The distance in elements between rows of a tile, for heads of up to D: eight rows, which are
/// read at the same time, are in different banks.
template<int D>
inline constexpr int pitch = D + 8;

template<int D>
constexpr std::size_t shared_bytes(int tiles, int statistics) {
  return static_cast<std::size_t>(tiles * tile * pitch<D>) * sizeof(std::uint16_t) +
         static_cast<std::size_t>(statistics * tile) * sizeof(float);
}

__device__ inline int lane_of_warp() {
  return static_cast<int>(threadIdx.x) % 32;
}

/// Which part of a 16 x 8 result a lane holds (of 16 x 16: of two such results): element e of the
/// j-th result is at row(e), column(j, e).
struct Lane {
  int lane = lane_of_warp();
  __device__ int row(int e) const { return lane / 4 + e / 2 * 8; }
  __device__ int column(int j, int e) const { return j * 8 + lane % 4 * 2 + e % 2; }
};

// Returns the first row of the calling warp within its block's tile.
__device__ inline int rows_of_warp() {
  return static_cast<int>(threadIdx.x) / 32 * warp_rows;
}

// Copies the rows [first, first + tile) of a head into shared memory, with zeros beyond the
// sequence and the head.
template<int D, class T>
__device__ void load(const Problem& s, const T* head, std::int64_t ld, int first, T* to) {
  constexpr int run = sizeof(uint4) / sizeof(T);
  for (int e = static_cast<int>(threadIdx.x); e < tile * (D / run); e += threads) {
    const int row = e / (D / run), c = e % (D / run) * run;
    const T* from = head + (first + row) * ld + c;
    T* into = to + row * pitch<D> + c;
    const bool there = first + row < s.sequence;
    if (s.aligned)
      *reinterpret_cast<uint4*>(into) =
          there && c < s.d ? *reinterpret_cast<const uint4*>(from) : uint4{0, 0, 0, 0};
    else
      for (int j = 0; j < run; ++j) into[j] = there && c + j < s.d ? from[j] : T{};
  }
}

// Returns where the calling lane's row begins, for four matrices: two above each other, then the
// two beside them.
template<int D, class T>
__device__ const T* square_at(const T* from, int row, int column) {
  const int lane = lane_of_warp();
  return from + (row + lane % 16) * pitch<D> + column + lane / 16 * 8;
}
// Loads a left operand from a tile: 16 rows from `row`, 16 columns from `column`.
template<int D, class T>
__device__ Fragment left(const T* from, int row, int column) {
  return load_matrices(square_at<D>(from, row, column));
}
// Loads a right operand [16 rows][16 columns]: parts 0 and 1 for the first eight columns of the
// product, parts 2 and 3 for the next eight.
template<int D, class T>
__device__ Fragment right(const T* from, int row, int column) {
  return load_transposed(square_at<D>(from, row, column));
}
// Loads a right operand [16 columns of the tile][16 rows of the tile] in the same parts.
template<int D, class T>
__device__ Fragment right_of_rows(const T* from, int row, int column) {
  const int lane = lane_of_warp();
  return load_matrices(from + (row + lane / 16 * 8 + lane % 8) * pitch<D> + column +
                       lane / 8 % 2 * 8);
}

/// 16 x 16 sums in the layout of 16 x 16 left operands.
struct Square {
  float sum[2][4] = {};

  // Calls `f(sum, j, e)` for each element that the lane holds.
  template<class F>
  __device__ void each(const F& f) {
#pragma unroll
    for (int j = 0; j < 2; ++j)
#pragma unroll
      for (int e = 0; e < 4; ++e) f(sum[j][e], j, e);
  }
};
template<class T>
__device__ void add(Square& to, const Fragment& a, const Fragment& b) {
  multiply_add<T>(to.sum[0], a, b.part[0], b.part[1]);
  multiply_add<T>(to.sum[1], a, b.part[2], b.part[3]);
}
template<class T>
__device__ Fragment as_left(const Square& x) {
  return {{packed<T>(x.sum[0][0], x.sum[0][1]), packed<T>(x.sum[0][2], x.sum[0][3]),
           packed<T>(x.sum[1][0], x.sum[1][1]), packed<T>(x.sum[1][2], x.sum[1][3])}};
}

// Returns 16 rows of `a` times 16 rows of `b`, transposed: sums over whole heads.
template<int D, class T>
__device__ Square row_products(const T* a, int a_row, const T* b, int b_row) {
  Square sums;
#pragma unroll
  for (int c = 0; c < D; c += 16) add<T>(sums, left<D>(a, a_row, c), right_of_rows<D>(b, b_row, c));
  return sums;
}

/// The 16 rows of a result that a warp holds, D wide.
template<int D>
struct Band {
  Square square[D / 16];

  // Adds `weights`[16][16] times 16 rows of `x`.
  template<class T>
  __device__ void add_product(const Fragment& weights, const T* x, int row) {
#pragma unroll
    for (int i = 0; i < D / 16; ++i) add<T>(square[i], weights, right<D>(x, row, i * 16));
  }
  // Multiplies the rows of element 0 by `upper` and those of element 2 by `lower`.
  __device__ void scale(float upper, float lower) {
#pragma unroll
    for (int i = 0; i < D / 16; ++i)
      square[i].each([&](float& x, int, int e) { x *= e < 2 ? upper : lower; });
  }
  // Stores the sums to the rows [first, first + 16) of a head.
  template<class T>
  __device__ void store(const Problem& s, T* head, std::int64_t ld, int first) const {
    const Lane at;
#pragma unroll
    for (int i = 0; i < D / 16; ++i)
#pragma unroll
      for (int j = 0; j < 2; ++j)
#pragma unroll
        for (int e = 0; e < 4; e += 2) {
          const int row = first + at.row(e), c = i * 16 + at.column(j, e);
          if (row >= s.sequence || c >= s.d) continue;
          T* to = head + row * ld + c;
          const std::uint32_t both = packed<T>(square[i].sum[j][e], square[i].sum[j][e + 1]);
          if (s.aligned) {
            *reinterpret_cast<std::uint32_t*>(to) = both;
          } else {
            to[0].bits = static_cast<std::uint16_t>(both);
            if (c + 1 < s.d) to[1].bits = static_cast<std::uint16_t>(both >> 16);
          }
        }
  }
};

// Returns the maximum over the four lanes that share rows.
__device__ inline float row_max(float x) {
  x = fmaxf(x, from_lane_xor(x, 1));
  return fmaxf(x, from_lane_xor(x, 2));
}
__device__ inline float row_sum(float x) {
  x += from_lane_xor(x, 1);
  return x + from_lane_xor(x, 2);
}

/// A softmax that is updated as scores arrive, for the two rows of which a lane holds elements.
struct RunningSoftmax {
  // The totals cover this lane's elements only.
  float top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};

  // Turns scores into powers relative to the new maximum. `shrink` receives the factors by which
  // earlier sums must be multiplied.
  template<int N>
  __device__ void take(Square (&scores)[N], float (&shrink)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float highest = top[half];
      each(scores, half, [&](float& x) { highest = fmaxf(highest, x); });
      highest = row_max(highest);
      // A row beyond the sequence sees no keys. It is not stored either.
      const float base = highest == -INFINITY ? 0 : highest;
      float added = 0;
      each(scores, half, [&](float& x) { added += x = quick_exp(x - base); });
      shrink[half] = quick_exp(top[half] - base);
      total[half] = total[half] * shrink[half] + added;
      top[half] = highest;
    }
  }
  template<int N, class F>
  __device__ static void each(Square (&scores)[N], int half, const F& f) {
#pragma unroll
    for (int i = 0; i < N; ++i)
      scores[i].each([&](float& x, int, int e) {
        if (e / 2 == half) f(x);
      });
  }
};

template<int D, class T>
__global__ void __launch_bounds__(threads)
    forward_kernel(Problem s, Inputs<T> in, T* out, float* logsumexp) {
  T* const qs = shared_memory<T>();
  T *ks = qs + tile * pitch<D>, *vs = ks + tile * pitch<D>;
  const int first = first_row_later_first(tile);
  const int head = static_cast<int>(blockIdx.y), sample = static_cast<int>(blockIdx.z);
  const int kv_head = head / s.group(), row0 = rows_of_warp();
  const Lane at;
  load<D>(s, s.head_of(in.q, s.ld_q, sample, head), s.ld_q, first, qs);
  __syncthreads();
  Fragment query[D / 16];
#pragma unroll
  for (int i = 0; i < D / 16; ++i) query[i] = left<D>(qs, row0, i * 16);
  Band<D> sums;
  RunningSoftmax softmax;
  for (int key = 0; key < first + tile && key < s.sequence; key += tile) {
    __syncthreads();
    load<D>(s, s.head_of(in.k, s.ld_kv, sample, kv_head), s.ld_kv, key, ks);
    load<D>(s, s.head_of(in.v, s.ld_kv, sample, kv_head), s.ld_kv, key, vs);
    __syncthreads();
    Square scores[tile / 16];
#pragma unroll
    for (int k = 0; k < tile / 16; ++k) {
#pragma unroll
      for (int i = 0; i < D / 16; ++i)
        add<T>(scores[k], query[i], right_of_rows<D>(ks, k * 16, i * 16));
      scores[k].each([&](float& x, int j, int e) {
        const bool seen = s.sees(first + row0 + at.row(e), key + k * 16 + at.column(j, e));
        x = seen ? x * s.scale : -INFINITY;
      });
    }
    float shrink[2];
    softmax.take(scores, shrink);
    sums.scale(shrink[0], shrink[1]);
#pragma unroll
    for (int k = 0; k < tile / 16; ++k) sums.add_product(as_left<T>(scores[k]), vs, k * 16);
  }
  const float total[2] = {row_sum(softmax.total[0]), row_sum(softmax.total[1])};
  sums.scale(1.0f / total[0], 1.0f / total[1]);
  sums.store(s, s.head_of(out, s.ld_out, sample, head), s.ld_out, first + row0);
  for (int half = 0; half < 2; ++half) {
    const int row = first + row0 + at.row(half * 2);
    if (at.lane % 4 == 0 && row < s.sequence)
      logsumexp[s.stats(sample, head) + row] = softmax.top[half] + logf(total[half]);
  }
}

// Computes the probability P of a score again, and the gradient of the unscaled score, scale * P *
// (dP - delta). They replace the score and dP.
__device__ inline void differentiate(const Problem& s, int q, int k, float logsumexp, float delta,
                                     float& score, float& gradient) {
  const float p = s.sees(q, k) ? quick_exp(score * s.scale - logsumexp) : 0;
  gradient = p == 0 ? 0 : s.scale * p * (gradient - delta);
  score = p;
}

template<int D, class T>
__global__ void __launch_bounds__(threads)
    query_gradient_kernel(Problem s, Inputs<T> in, Outcome<T> o, Gradients<T> g) {
  T* const qs = shared_memory<T>();
  T *dos = qs + tile * pitch<D>, *ks = dos + tile * pitch<D>, *vs = ks + tile * pitch<D>;
  const int first = first_row_later_first(tile);
  const int head = static_cast<int>(blockIdx.y), sample = static_cast<int>(blockIdx.z);
  const int kv_head = head / s.group(), row0 = rows_of_warp();
  const Lane at;
  load<D>(s, s.head_of(in.q, s.ld_q, sample, head), s.ld_q, first, qs);
  load<D>(s, s.head_of(o.dout, s.ld_out, sample, head), s.ld_out, first, dos);
  float logsumexp[2] = {}, delta[2] = {};
  for (int half = 0; half < 2; ++half) {
    const int row = first + row0 + at.row(half * 2);
    if (row >= s.sequence) continue;
    logsumexp[half] = o.logsumexp[s.stats(sample, head) + row];
    delta[half] = o.delta[s.stats(sample, head) + row];
  }
  Band<D> dq;
  for (int key = 0; key < first + tile && key < s.sequence; key += tile) {
    __syncthreads();
    load<D>(s, s.head_of(in.k, s.ld_kv, sample, kv_head), s.ld_kv, key, ks);
    load<D>(s, s.head_of(in.v, s.ld_kv, sample, kv_head), s.ld_kv, key, vs);
    __syncthreads();
    for (int k = 0; k < tile && key + k < first + row0 + warp_rows; k += 16) {
      Square p = row_products<D>(qs, row0, ks, k), ds = row_products<D>(dos, row0, vs, k);
      p.each([&](float& score, int j, int e) {
        differentiate(s, first + row0 + at.row(e), key + k + at.column(j, e), logsumexp[e / 2],
                      delta[e / 2], score, ds.sum[j][e]);
      });
      dq.add_product(as_left<T>(ds), ks, k);
    }
  }
  dq.store(s, s.head_of(g.q, g.ld_q, sample, head), g.ld_q, first + row0);
}

// The query heads of a group follow one another, so that their parts are added in one order.
template<int D, class T>
__global__ void __launch_bounds__(threads)
    key_gradient_kernel(Problem s, Inputs<T> in, Outcome<T> o, Gradients<T> g) {
  T* const ks = shared_memory<T>();
  T *vs = ks + tile * pitch<D>, *qs = vs + tile * pitch<D>, *dos = qs + tile * pitch<D>;
  float *logsumexp = reinterpret_cast<float*>(dos + tile * pitch<D>), *delta = logsumexp + tile;
  const int first = static_cast<int>(blockIdx.x) * tile;
  const int kv_head = static_cast<int>(blockIdx.y), sample = static_cast<int>(blockIdx.z);
  const int row0 = rows_of_warp();
  const Lane at;
  load<D>(s, s.head_of(in.k, s.ld_kv, sample, kv_head), s.ld_kv, first, ks);
  load<D>(s, s.head_of(in.v, s.ld_kv, sample, kv_head), s.ld_kv, first, vs);
  Band<D> dk, dv;
  for (int head = kv_head * s.group(); head < (kv_head + 1) * s.group(); ++head)
    for (int query = first; query < s.sequence; query += tile) {
      __syncthreads();
      load<D>(s, s.head_of(in.q, s.ld_q, sample, head), s.ld_q, query, qs);
      load<D>(s, s.head_of(o.dout, s.ld_out, sample, head), s.ld_out, query, dos);
      for (int i = static_cast<int>(threadIdx.x); i < tile; i += threads) {
        const bool there = query + i < s.sequence;
        logsumexp[i] = there ? o.logsumexp[s.stats(sample, head) + query + i] : 0;
        delta[i] = there ? o.delta[s.stats(sample, head) + query + i] : 0;
      }
      __syncthreads();
      // Queries before this warp's first key see none of its keys.
      for (int q = query == first ? row0 : 0; q < tile; q += 16) {
        Square p = row_products<D>(ks, row0, qs, q), ds = row_products<D>(vs, row0, dos, q);
        p.each([&](float& score, int j, int e) {
          const int i = q + at.column(j, e);
          differentiate(s, query + i, first + row0 + at.row(e), logsumexp[i], delta[i], score,
                        ds.sum[j][e]);
        });
        dv.add_product(as_left<T>(p), dos, q);
        dk.add_product(as_left<T>(ds), qs, q);
      }
    }
  dk.store(s, s.head_of(g.k, g.ld_kv, sample, kv_head), g.ld_kv, first + row0);
  dv.store(s, s.head_of(g.v, g.ld_kv, sample, kv_head), g.ld_kv, first + row0);
}

template<int D, class T>
void forward(cudaStream_t stream, const Problem& s, const Inputs<T>& in, T* out, float* logsumexp) {
  launch(stream, forward_kernel<D, T>, grid_of(s, tile, s.heads), threads, shared_bytes<D>(3, 0), s,
         in, out, logsumexp);
}

template<int D, class T>
void backward(cudaStream_t stream, const Problem& s, const Inputs<T>& in, const Outcome<T>& o,
              const Gradients<T>& g) {
  launch(stream, query_gradient_kernel<D, T>, grid_of(s, tile, s.heads), threads,
         shared_bytes<D>(4, 0), s, in, o, g);
  launch(stream, key_gradient_kernel<D, T>, grid_of(s, tile, s.kv_heads), threads,
         shared_bytes<D>(4, 2), s, in, o, g);
}

}  // namespace shardmark::device::tensor
