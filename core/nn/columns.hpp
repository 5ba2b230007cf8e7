// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix, column by column, in an order that depends on the row count
// alone: gradients of biases and of norms' weights.
#pragma once

#include <core/half.hpp>
#include <core/nn/kernel.hpp>

namespace shardmark::kernel {

/// Columns that one iteration sums: a run long enough for the prefetcher, small enough for
/// registers' nearest cache.
inline constexpr std::int64_t strip_columns = on_host ? 512 : 1;
/// Rows that are summed before they are added to the total: rounding grows with their number only.
inline constexpr std::int64_t strip_rows = 32;

/// out[j] (+)= sum over rows r of `f(r, j)`, in fp32 and rounded once, for columns [begin, begin +
/// count).
template<class T, class F>
KOKKOS_INLINE_FUNCTION void sum_columns(std::int64_t rows, std::int64_t begin, std::int64_t count,
                                        T* out, bool accumulate, const F& f) {
  float total[strip_columns], part[strip_columns];
  simd_loop(count, [&](std::int64_t j) { total[j] = 0; });
  for (std::int64_t r0 = 0; r0 < rows; r0 += strip_rows) {
    const std::int64_t r1 = rows < r0 + strip_rows ? rows : r0 + strip_rows;
    simd_loop(count, [&](std::int64_t j) { part[j] = f(r0, begin + j); });
    for (std::int64_t r = r0 + 1; r < r1; ++r)
      simd_loop(count, [&](std::int64_t j) { part[j] += f(r, begin + j); });
    simd_loop(count, [&](std::int64_t j) { total[j] += part[j]; });
  }
  simd_loop(count, [&](std::int64_t j) {
    round_to(out[begin + j], accumulate ? widen(out[begin + j]) + total[j] : total[j]);
  });
}

/// Calls `f(begin, count)` for each strip of `columns`.
template<class F>
void for_each_strip(const Context& ctx, const char* label, std::int64_t columns, const F& f) {
  const std::int64_t strips = (columns + strip_columns - 1) / strip_columns;
  for_each(
      ctx, label, strips, KOKKOS_LAMBDA(std::int64_t s) {
        const std::int64_t begin = s * strip_columns;
        f(begin, columns - begin < strip_columns ? columns - begin : strip_columns);
      });
}

}  // namespace shardmark::kernel
