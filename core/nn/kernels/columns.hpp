// SPDX-License-Identifier: Apache-2.0
// Sums over the rows of a matrix, column by column, for the gradients of biases and of the norms'
// weights. The order of additions depends on the number of rows alone. On the host one thread sums
// a strip of columns. On a GPU one team does, and its threads share the rows. The terms are an
// object f: `f(r, j)` returns one, for the host, and `f(r, j, n, values)` writes those of the run
// of columns [j, j + n), for a GPU.
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

  /// out[j] (+)= sum of the terms over rows r, in fp32 and rounded once, for the strip's columns.
  template<class T, class F>
  KOKKOS_INLINE_FUNCTION void sum(std::int64_t rows, T* out, bool accumulate,
                                  const F& terms) const {
    const F f = terms;  // a copy in registers: stores cannot alias it
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

/// Columns [begin, begin + count), summed by one team. Part p sums the rows p, p + 256, … into the
/// team's scratch, a run of columns per lane. Then the parts are added in order, first within
/// groups.
struct TeamStrip {
  // One memory sector of 2-byte elements; narrow strips make many teams.
  static constexpr int columns = 16;
  static constexpr int lanes = columns / run_elems;
  static constexpr int parts = 256, groups = 16, group_parts = parts / groups;
  static constexpr std::size_t sums_elems = std::size_t{parts + groups} * columns;
  const Team& team;
  float* sums;  // parts x columns, then groups x columns
  std::int64_t begin, count;

  template<class T, class F>
  KOKKOS_INLINE_FUNCTION void sum(std::int64_t rows, T* out, bool accumulate, const F& f) const {
    Kokkos::parallel_for(Kokkos::TeamThreadRange(team, parts), [&](int p) {
      Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, lanes), [&](int lane) {
        const std::int64_t first = std::int64_t{lane} * run_elems;
        if (first >= count) return;
        float total[run_elems] = {};
        for (std::int64_t r = p; r < rows;) add_part(rows, begin + first, f, r, total);
        for (int i = 0; i < run_elems; ++i) sums[p * columns + first + i] = total[i];
      });
    });
    team.team_barrier();
    float* of_groups = sums + parts * columns;
    for_each_sum(groups, [&](int group, int j) {
      of_groups[group * columns + j] = added(sums + group * group_parts * columns + j, group_parts);
    });
    team.team_barrier();
    for_each_sum(1, [&](int, int j) {
      const float total = added(of_groups + j, groups);
      T& to = out[begin + j];
      round_to(to, accumulate ? widen(to) + total : total);
    });
    team.team_barrier();  // the next sum overwrites what this one reads
  }

 private:
  // Adds the terms of up to strip_rows rows of a part from r on, and advances r beyond them.
  template<class F>
  KOKKOS_INLINE_FUNCTION void add_part(std::int64_t rows, std::int64_t column, const F& f,
                                       std::int64_t& r, float (&total)[run_elems]) const {
    const int n = elems_of_run(column, begin + count);
    float part[run_elems] = {}, terms[run_elems];
    for (std::int64_t k = 0; k < strip_rows && r < rows; ++k, r += parts) {
      f(r, column, n, terms);
      for (int i = 0; i < run_elems; ++i) part[i] += terms[i];
    }
    for (int i = 0; i < run_elems; ++i) total[i] += part[i];
  }
  // Calls `f(i, j)` for i in [0, n) and the strip's columns j.
  template<class F>
  KOKKOS_INLINE_FUNCTION void for_each_sum(int n, const F& f) const {
    const int width = static_cast<int>(count);
    Kokkos::parallel_for(Kokkos::TeamVectorRange(team, n * width),
                         [&](int at) { f(at / width, at % width); });
  }
  KOKKOS_INLINE_FUNCTION static float added(const float* values, int n) {
    float total = 0;
    for (int i = 0; i < n; ++i) total += values[i * columns];
    return total;
  }
};

using Strip = std::conditional_t<rows_are_warps, TeamStrip, ThreadStrip>;

/// The terms of a sum over the rows themselves.
template<class T>
struct Elements {
  const T* x;
  std::int64_t columns;
  KOKKOS_INLINE_FUNCTION float operator()(std::int64_t r, std::int64_t j) const {
    return widen(x[r * columns + j]);
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t r, std::int64_t j, int n,
                                         float (&terms)[run_elems]) const {
    load_run(x + r * columns + j, n, terms);
  }
};

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
    const auto policy = team_policy(ctx, strips, TeamStrip::parts, TeamStrip::lanes, bytes, body,
                                    Kokkos::ParallelForTag());
    Kokkos::parallel_for(label, policy, body);
    ctx.progress();
  } else {
    for_each(ctx, label, strips, body);
  }
}

}  // namespace shardmark::kernel
