// SPDX-License-Identifier: Apache-2.0
// What the kernels of attention on tensor cores consist of: tiles of rows in shared memory, bands
// of 16 rows in the registers of a warp, products of the two, and a softmax that is updated as
// scores arrive.
#pragma once

#include <cmath>

#include <core/nn/gpu/attention_problem.cuh>

namespace shardmark::device::tensor {

/// The rows of the other side that a block processes at a time, and the rows of a band.
inline constexpr int tile = 64, band_rows = 16, warps = 4, threads = 32 * warps;
inline constexpr float log2_e = 1.44269504088896340736f;

/// The number of bands of a warp, for heads of up to D. Every right operand that is loaded serves
/// all of them; registers are the limit.
template<int D>
inline constexpr int bands = D <= 64 ? 2 : 1;
template<int D>
inline constexpr int block_rows = warps* band_rows* bands<D>;

/// The distance in elements between rows of a tile, for heads of up to D: eight rows, which are
/// read at the same time, are in different banks.
template<int D>
inline constexpr int pitch = D + 8;

template<int D>
constexpr std::size_t shared_bytes(int rows, int statistics) {
  return static_cast<std::size_t>(rows * pitch<D>) * sizeof(std::uint16_t) +
         static_cast<std::size_t>(statistics) * sizeof(float);
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

// Returns the first row of the calling warp within its block's rows.
template<int Bands>
__device__ int rows_of_warp() {
  return static_cast<int>(threadIdx.x) / 32 * band_rows * Bands;
}

// Starts to copy the rows [first, first + Rows) of a head into shared memory, with zeros beyond the
// sequence and the head.
template<int D, int Rows, class T>
__device__ void load(const Problem& s, const T* head, std::int64_t ld, int first, T* to) {
  constexpr int run = sizeof(uint4) / sizeof(T);
#pragma unroll
  for (int i = 0; i < Rows * (D / run) / threads; ++i) {
    const int e = i * threads + static_cast<int>(threadIdx.x);
    const int row = e / (D / run), c = e % (D / run) * run;
    T* into = to + row * pitch<D> + c;
    const bool there = first + row < s.sequence;
    const T* from = head + (there ? (first + row) * ld + c : 0);
    if (s.aligned)
      start_copy<sizeof(uint4)>(into, from, there && c < s.d);
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

/// Left operands: the bands of 16 rows of a warp, whole heads wide. They stay in registers if
/// `Kept`, and are loaded again for each product if not.
template<int D, int Bands, bool Kept, class T>
struct LeftRows {
  const T* from;
  int row0;
  Fragment kept[Kept ? Bands : 1][Kept ? D / 16 : 1];

  __device__ LeftRows(const T* tile_rows, int first_row) : from(tile_rows), row0(first_row) {
    if constexpr (Kept)
#pragma unroll
      for (int b = 0; b < Bands; ++b)
#pragma unroll
        for (int i = 0; i < D / 16; ++i) kept[b][i] = left<D>(from, row0 + b * band_rows, i * 16);
  }
  __device__ Fragment at(int b, int i) const {
    if constexpr (Kept)
      return kept[b][i];
    else
      return left<D>(from, row0 + b * band_rows, i * 16);
  }
};

// sums[b] = the rows of band b times 16 rows of `x`, transposed: sums over whole heads.
template<int D, int Bands, bool Kept, class T>
__device__ void row_products(const LeftRows<D, Bands, Kept, T>& rows, const T* x, int x_row,
                             Square (&sums)[Bands]) {
#pragma unroll
  for (int i = 0; i < D / 16; ++i) {
    const Fragment operand = right_of_rows<D>(x, x_row, i * 16);
#pragma unroll
    for (int b = 0; b < Bands; ++b) add<T>(sums[b], rows.at(b, i), operand);
  }
}

/// The 16 rows of a result that a warp holds, D wide.
template<int D>
struct Band {
  Square square[D / 16];

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

// sums[b] += weights[b] [16][16] times 16 rows of `x`.
template<int D, int Bands, class T>
__device__ void add_products(Band<D> (&sums)[Bands], const Square (&weights)[Bands], const T* x,
                             int x_row) {
  Fragment operand[Bands];
#pragma unroll
  for (int b = 0; b < Bands; ++b) operand[b] = as_left<T>(weights[b]);
#pragma unroll
  for (int i = 0; i < D / 16; ++i) {
    const Fragment rows = right<D>(x, x_row, i * 16);
#pragma unroll
    for (int b = 0; b < Bands; ++b) add<T>(sums[b].square[i], operand[b], rows);
  }
}

// Returns the maximum over the four lanes that share rows.
__device__ inline float row_max(float x) {
  x = fmaxf(x, from_lane_xor(x, 1));
  return fmaxf(x, from_lane_xor(x, 2));
}
__device__ inline float row_sum(float x) {
  x += from_lane_xor(x, 1);
  return x + from_lane_xor(x, 2);
}

/// A softmax that is updated as scores arrive, for the two rows of a band of which a lane holds
/// elements.
struct RunningSoftmax {
  // `top` is the highest score that is not scaled yet. The totals cover this lane's elements only.
  float top[2] = {-INFINITY, -INFINITY}, total[2] = {0, 0};

  // Turns scores into powers relative to the new maximum, 2^(scale * (score - top)). `shrink`
  // receives the factors by which earlier sums must be multiplied. A row with a window may see no
  // key of the first tiles.
  template<int N>
  __device__ void take(Square (&scores)[N], float scale, float (&shrink)[2]) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      float highest = top[half];
      each(scores, half, [&](float& x) { highest = fmaxf(highest, x); });
      highest = row_max(highest);
      const float base = highest == -INFINITY ? 0 : highest * scale;
      float added = 0;
      each(scores, half, [&](float& x) { added += x = quick_exp2(fmaf(x, scale, -base)); });
      shrink[half] = quick_exp2(fmaf(top[half], scale, -base));
      total[half] = fmaf(total[half], shrink[half], added);
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

}  // namespace shardmark::device::tensor
