// SPDX-License-Identifier: Apache-2.0
// Attention of 16-bit types on tensor cores, with sums in fp32 (after Dao, FlashAttention-2, 2023).
// A warp processes bands of 16 rows against 64 rows of the other side at a time, which arrive in
// shared memory while the 64 rows before them are multiplied. Scores stay in registers: the result
// of one product has the layout of the left operand of the next. Backward has one kernel for the
// gradients of queries and one for those of keys and values. Both compute the scores again, which
// avoids sums by atomics and gives the same bits every time.
#pragma once

#include <core/nn/gpu/attention_bands.cuh>

namespace shardmark::device::tensor {

// Whether a query of [query, query + 16) does not see a key of [key, key + keys).
__device__ inline bool hides(const Problem& s, int query, int key, int keys) {
  return key + keys > query + 1 || query + band_rows - key > s.window;
}
// Hides the keys [key, key + 16) that the queries [query, query + 16) do not see.
__device__ inline void hide_keys(const Problem& s, Square& scores, int query, int key) {
  const Lane at;
  scores.each([&](float& x, int j, int e) {
    const int distance = query + at.row(e) - key - at.column(j, e);
    if (distance < 0 || distance >= s.window) x = -INFINITY;
  });
}

template<int D, class T>
__global__ void __launch_bounds__(threads)
    forward_kernel(Problem s, Inputs<T> in, T* out, float* logsumexp) {
  constexpr int Bands = bands<D>, tile_elems = tile * pitch<D>;
  T* const qs = shared_memory<T>();
  T *const ks = qs + block_rows<D> * pitch<D>, *const vs = ks + 2 * tile_elems;
  const int first = first_row_later_first(block_rows<D>);
  const int head = static_cast<int>(blockIdx.y), sample = static_cast<int>(blockIdx.z);
  const int kv_head = head / s.group(), row0 = rows_of_warp<Bands>();
  const T* const k_head = s.head_of(in.k, s.ld_kv, sample, kv_head);
  const T* const v_head = s.head_of(in.v, s.ld_kv, sample, kv_head);
  load<D, block_rows<D>>(s, s.head_of(in.q, s.ld_q, sample, head), s.ld_q, first, qs);
  const int begin = s.first_tile_of_keys(first, tile), begin_at = begin / tile % 2 * tile_elems;
  load<D, tile>(s, k_head, s.ld_kv, begin, ks + begin_at);
  load<D, tile>(s, v_head, s.ld_kv, begin, vs + begin_at);
  await_copies();
  __syncthreads();
  const LeftRows<D, Bands, true, T> queries(qs, row0);
  Band<D> sums[Bands];
  RunningSoftmax softmax[Bands];
  const float scale = s.scale * log2_e;
  const int first_of_warp = first + row0, end = s.end_of_keys(first + block_rows<D>);
  for (int key = begin; key < end; key += tile) {
    const int now = key / tile % 2 * tile_elems, next = tile_elems - now;
    if (key != begin) {
      await_copies();
      __syncthreads();
    }
    if (key + tile < end) {
      load<D, tile>(s, k_head, s.ld_kv, key + tile, ks + next);
      load<D, tile>(s, v_head, s.ld_kv, key + tile, vs + next);
    }
    if (key >= first_of_warp + Bands * band_rows) continue;  // this warp's queries see none of them
    Square scores[tile / 16][Bands], of_band[tile / 16];
#pragma unroll
    for (int k = 0; k < tile / 16; ++k) row_products(queries, ks + now, k * 16, scores[k]);
#pragma unroll
    for (int b = 0; b < Bands; ++b) {
      const int query = first_of_warp + b * band_rows;
#pragma unroll
      for (int k = 0; k < tile / 16; ++k) {
        of_band[k] = scores[k][b];
        if (hides(s, query, key, tile)) hide_keys(s, of_band[k], query, key + k * 16);
      }
      float shrink[2];
      softmax[b].take(of_band, scale, shrink);
      sums[b].scale(shrink[0], shrink[1]);
#pragma unroll
      for (int k = 0; k < tile / 16; ++k) scores[k][b] = of_band[k];
    }
#pragma unroll
    for (int k = 0; k < tile / 16; ++k) add_products(sums, scores[k], vs + now, k * 16);
  }
  const Lane at;
#pragma unroll
  for (int b = 0; b < Bands; ++b) {
    EndOfRow ends[2];
    for (int half = 0; half < 2; ++half)
      ends[half] =
          end_of_row(s, head, softmax[b].top[half] * s.scale, row_sum(softmax[b].total[half]));
    const int row_of_band = first_of_warp + b * band_rows;
    sums[b].scale(ends[0].factor, ends[1].factor);
    sums[b].store(s, s.head_of(out, s.ld_out, sample, head), s.ld_out, row_of_band);
    for (int half = 0; half < 2; ++half) {
      const int row = row_of_band + at.row(half * 2);
      if (at.lane % 4 == 0 && row < s.sequence)
        logsumexp[s.stats(sample, head) + row] = ends[half].logsumexp;
    }
  }
}

// Computes the probability P of a score again, and the gradient of the score before its scale, P *
// (dP - delta). They replace the score and dP. The caller multiplies its sums by the scale.
__device__ inline void differentiate(float scale, float logsumexp, float delta, float& score,
                                     float& gradient) {
  score = quick_exp2(fmaf(score, scale, -logsumexp));
  gradient = score * (gradient - delta);
}

template<int D, class T>
__global__ void __launch_bounds__(threads)
    query_gradient_kernel(Problem s, Inputs<T> in, Outcome<T> o, Gradients<T> g) {
  constexpr int Bands = bands<D>, tile_elems = tile * pitch<D>;
  T* const qs = shared_memory<T>();
  T *const dos = qs + block_rows<D> * pitch<D>, *const ks = dos + block_rows<D> * pitch<D>;
  T* const vs = ks + 2 * tile_elems;
  const int first = first_row_later_first(block_rows<D>);
  const int head = static_cast<int>(blockIdx.y), sample = static_cast<int>(blockIdx.z);
  const int kv_head = head / s.group(), row0 = rows_of_warp<Bands>();
  const T* const k_head = s.head_of(in.k, s.ld_kv, sample, kv_head);
  const T* const v_head = s.head_of(in.v, s.ld_kv, sample, kv_head);
  load<D, block_rows<D>>(s, s.head_of(in.q, s.ld_q, sample, head), s.ld_q, first, qs);
  load<D, block_rows<D>>(s, s.head_of(o.dout, s.ld_out, sample, head), s.ld_out, first, dos);
  const int begin = s.first_tile_of_keys(first, tile), begin_at = begin / tile % 2 * tile_elems;
  load<D, tile>(s, k_head, s.ld_kv, begin, ks + begin_at);
  load<D, tile>(s, v_head, s.ld_kv, begin, vs + begin_at);
  const Lane at;
  const float scale = s.scale * log2_e;
  const int first_of_warp = first + row0, end = s.end_of_keys(first + block_rows<D>);
  float logsumexp[Bands][2] = {}, delta[Bands][2] = {};
  for (int b = 0; b < Bands; ++b)
    for (int half = 0; half < 2; ++half) {
      const int row = first_of_warp + b * band_rows + at.row(half * 2);
      if (row >= s.sequence) continue;
      logsumexp[b][half] = o.logsumexp[s.stats(sample, head) + row] * log2_e;
      delta[b][half] = o.delta[s.stats(sample, head) + row];
    }
  await_copies();
  __syncthreads();
  const LeftRows<D, Bands, true, T> queries(qs, row0), douts(dos, row0);
  Band<D> dq[Bands];
  for (int key = begin; key < end; key += tile) {
    const int now = key / tile % 2 * tile_elems, next = tile_elems - now;
    if (key != begin) {
      await_copies();
      __syncthreads();
    }
    if (key + tile < end) {
      load<D, tile>(s, k_head, s.ld_kv, key + tile, ks + next);
      load<D, tile>(s, v_head, s.ld_kv, key + tile, vs + next);
    }
    for (int k = 0; k < tile && key + k < first_of_warp + Bands * band_rows; k += 16) {
      Square p[Bands], ds[Bands];
      row_products(queries, ks + now, k, p);
      row_products(douts, vs + now, k, ds);
#pragma unroll
      for (int b = 0; b < Bands; ++b) {
        const int query = first_of_warp + b * band_rows;
        if (hides(s, query, key + k, 16)) hide_keys(s, p[b], query, key + k);
        p[b].each([&](float& score, int j, int e) {
          differentiate(scale, logsumexp[b][e / 2], delta[b][e / 2], score, ds[b].sum[j][e]);
        });
      }
      add_products(dq, ds, ks + now, k);
    }
  }
#pragma unroll
  for (int b = 0; b < Bands; ++b) {
    dq[b].scale(s.scale, s.scale);
    dq[b].store(s, s.head_of(g.q, g.ld_q, sample, head), g.ld_q, first_of_warp + b * band_rows);
  }
}

// The query heads of a group follow one another, so that their parts are added in one order.
template<int D, class T>
__global__ void __launch_bounds__(threads)
    key_gradient_kernel(Problem s, Inputs<T> in, Outcome<T> o, Gradients<T> g) {
  constexpr int tile_elems = tile * pitch<D>;
  T* const ks = shared_memory<T>();
  T *const vs = ks + tile_elems, *const qs = vs + tile_elems, *const dos = qs + 2 * tile_elems;
  float* const logsumexp = reinterpret_cast<float*>(dos + 2 * tile_elems);
  float* const delta = logsumexp + 2 * tile;
  const int first = static_cast<int>(blockIdx.x) * tile;
  const int kv_head = static_cast<int>(blockIdx.y), sample = static_cast<int>(blockIdx.z);
  const int row0 = rows_of_warp<1>();
  const int tiles = (s.end_of_queries(first + tile) - first + tile - 1) / tile;
  const auto load_queries = [&](int number) {  // of all tiles of all heads of the group
    const int head = kv_head * s.group() + number / tiles, at = number % 2;
    const int query = first + number % tiles * tile;
    load<D, tile>(s, s.head_of(in.q, s.ld_q, sample, head), s.ld_q, query, qs + at * tile_elems);
    load<D, tile>(s, s.head_of(o.dout, s.ld_out, sample, head), s.ld_out, query,
                  dos + at * tile_elems);
    const int i = static_cast<int>(threadIdx.x) % tile;
    const bool there = query + i < s.sequence;
    const bool of_delta = static_cast<int>(threadIdx.x) / tile != 0;
    start_copy<sizeof(float)>(
        (of_delta ? delta : logsumexp) + at * tile + i,
        (of_delta ? o.delta : o.logsumexp) + s.stats(sample, head) + (there ? query + i : 0),
        there);
  };
  static_assert(threads == 2 * tile, "half of the threads load each statistic");
  load<D, tile>(s, s.head_of(in.k, s.ld_kv, sample, kv_head), s.ld_kv, first, ks);
  load<D, tile>(s, s.head_of(in.v, s.ld_kv, sample, kv_head), s.ld_kv, first, vs);
  load_queries(0);
  await_copies();
  __syncthreads();
  const LeftRows<D, 1, D <= 64, T> keys(ks, row0), values(vs, row0);
  const Lane at;
  const float scale = s.scale * log2_e;
  Band<D> dk[1], dv[1];
  for (int number = 0; number < tiles * s.group(); ++number) {
    const int now = number % 2;
    if (number != 0) {
      await_copies();
      __syncthreads();
    }
    if (number + 1 < tiles * s.group()) load_queries(number + 1);
    const int offset = number % tiles * tile;  // of the tile's queries from the first key
    const bool hidden = offset == 0 || offset + tile - row0 > s.window;
    // Queries before this warp's first key see none of its keys.
    for (int q = offset == 0 ? row0 : 0; q < tile; q += 16) {
      Square p[1], ds[1];
      row_products(keys, qs + now * tile_elems, q, p);
      row_products(values, dos + now * tile_elems, q, ds);
      p[0].each([&](float& score, int j, int e) {
        const int i = q + at.column(j, e);
        const int distance = offset + i - row0 - at.row(e);
        if (hidden && (distance < 0 || distance >= s.window)) score = -INFINITY;
        differentiate(scale, logsumexp[now * tile + i] * log2_e, delta[now * tile + i], score,
                      ds[0].sum[j][e]);
      });
      add_products(dv, p, dos + now * tile_elems, q);
      add_products(dk, ds, qs + now * tile_elems, q);
    }
  }
  dk[0].scale(s.scale, s.scale);
  dk[0].store(s, s.head_of(g.k, g.ld_kv, sample, kv_head), g.ld_kv, first + row0);
  dv[0].store(s, s.head_of(g.v, g.ld_kv, sample, kv_head), g.ld_kv, first + row0);
}

template<int D, class T>
void forward(device::Stream stream, const Problem& s, const Inputs<T>& in, T* out,
             float* logsumexp) {
  launch(stream, forward_kernel<D, T>, grid_of(s, block_rows<D>, s.heads), threads,
         shared_bytes<D>(block_rows<D> + 4 * tile, 0), s, in, out, logsumexp);
}

template<int D, class T>
void backward(device::Stream stream, const Problem& s, const Inputs<T>& in, const Outcome<T>& o,
              const Gradients<T>& g) {
  launch(stream, query_gradient_kernel<D, T>, grid_of(s, block_rows<D>, s.heads), threads,
         shared_bytes<D>(2 * block_rows<D> + 4 * tile, 0), s, in, o, g);
  launch(stream, key_gradient_kernel<D, T>, grid_of(s, tile, s.kv_heads), threads,
         shared_bytes<D>(6 * tile, 4 * tile), s, in, o, g);
}

}  // namespace shardmark::device::tensor
