// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix, column by column, for the gradients of biases and of the norms'
// weights. The order of additions depends on the number of rows alone. On the host one thread sums
// a strip of columns. On a GPU one team does, and its threads share the rows.
#pragma once

#include <core/nn/kernels/rows.hpp>
#include <core/numeric/half.hpp>

namespace shardmark::kernel {

/// This many rows are summed before the result is added to the total, so that rounding errors grow
/// with the number of such blocks only.
inline constexpr std::int64_t strip_rows = 32;

/// Columns [begin, begin + count), summed by one thread.
struct ThreadStrip {
  /// Long enough for the hardware prefetcher, and small enough for the first-level cache.
  static constexpr std::int64_t columns = 512;
  std::int64_t begin, count;

  /// out[j] (+)= sum over rows r of `f(r, j)`, in fp32 and rounded once, for the strip's columns.
  template<class T, class F>
  KOKKOS_INLINE_FUNCTION void sum(std::int64_t rows, T* out, bool accumulate, const F& f) const {
    float total[columns], part[columns];
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
};

/// Columns [begin, begin + count), summed by one team. Part p sums the rows p, p + 64, … into the
/// team's scratch; then the parts are added in order.
struct TeamStrip {
  // One memory sector of 2-byte elements; narrow strips make many teams.
  static constexpr int columns = 16;
  static constexpr int parts = 64;
  static constexpr std::size_t sums_elems = std::size_t{parts} * columns;
  const Team& team;
  float* sums;  // parts x columns
  std::int64_t begin, count;

  template<class T, class F>
  KOKKOS_INLINE_FUNCTION void sum(std::int64_t rows, T* out, bool accumulate, const F& f) const {
    const auto column_range = Kokkos::ThreadVectorRange(team, static_cast<int>(count));
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, parts), [&](int p) {
      Kokkos::parallel_for(column_range, [&](int j) {
        float total = 0;
        for (std::int64_t r = p; r < rows;) {
          float part = 0;
          for (std::int64_t k = 0; k < strip_rows && r < rows; ++k, r += parts)
            part += f(r, begin + j);
          total += part;
        }
        sums[p * columns + j] = total;
      });
    });
    team.team_barrier();
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, 1), [&](int) {
      Kokkos::parallel_for(column_range, [&](int j) {
        float total = 0;
        for (int p = 0; p < parts; ++p) total += sums[p * columns + j];
        T& to = out[begin + j];
        round_to(to, accumulate ? widen(to) + total : total);
      });
    });
    team.team_barrier();  // the next sum overwrites what this one reads
  }
};

using Strip = std::conditional_t<rows_are_warps, TeamStrip, ThreadStrip>;

/// The functor that runs `f` on one strip of columns, as a thread on the host or as a team on a
/// GPU.
template<class F>
struct StripBody {
  using Scratch =
      Kokkos::View<float*, Space::scratch_memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  F f;
  std::int64_t columns;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t s) const {
    const std::int64_t begin = s * Strip::columns, rest = columns - begin;
    f(ThreadStrip{begin, rest < Strip::columns ? rest : Strip::columns});
  }
  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const {
    const Scratch sums(team.team_scratch(0), TeamStrip::sums_elems);
    const std::int64_t begin = std::int64_t{team.league_rank()} * Strip::columns;
    const std::int64_t rest = columns - begin;
    f(TeamStrip{team, sums.data(), begin, rest < Strip::columns ? rest : Strip::columns});
  }
};

/// Calls `f(strip)` for each strip of `columns`.
template<class F>
void for_each_strip(const Context& ctx, const char* label, std::int64_t columns, const F& f) {
  const StripBody<F> body{f, columns};
  const std::int64_t strips = (columns + Strip::columns - 1) / Strip::columns;
  if constexpr (rows_are_warps) {
    const std::size_t bytes = StripBody<F>::Scratch::shmem_size(TeamStrip::sums_elems);
    const auto policy = team_policy(ctx, strips, TeamStrip::parts, TeamStrip::columns, bytes, body,
                                    Kokkos::ParallelForTag());
    Kokkos::parallel_for(label, policy, body);
    ctx.progress();
  } else {
    for_each(ctx, label, strips, body);
  }
}

}  // namespace shardmark::kernel
