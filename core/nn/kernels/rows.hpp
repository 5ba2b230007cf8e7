// SPDX-License-Identifier: Apache-2.0
// Kernels that work row by row, written once for hosts and GPUs: `f(row, r)` is the work of row r,
// and `row` divides it. On the host one thread processes a row. On a GPU a warp does, so that
// neighbouring lanes read neighbouring addresses. What one lane stores, only that lane may read
// later in the same kernel, because nothing orders the lanes.
#pragma once

#include <algorithm>
#include <type_traits>

#include <core/nn/kernels/runs.hpp>

namespace shardmark::kernel {

/// Two sums over the same elements.
struct TwoSums {
  float first = 0, second = 0;
  KOKKOS_INLINE_FUNCTION TwoSums& operator+=(const TwoSums& other) {
    first += other.first;
    second += other.second;
    return *this;
  }
};

}  // namespace shardmark::kernel

namespace Kokkos {
template<>
struct reduction_identity<shardmark::kernel::TwoSums> {
  KOKKOS_FORCEINLINE_FUNCTION static shardmark::kernel::TwoSums sum() { return {}; }
};
}  // namespace Kokkos

namespace shardmark::kernel {

/// True if a warp processes a row, false if a thread does. One test sets this on the host, too.
#if defined(SHARDMARK_ROWS_ARE_WARPS)
inline constexpr bool rows_are_warps = true;
#else
inline constexpr bool rows_are_warps = !on_host;
#endif

/// A row that one thread processes.
struct ThreadRow {
  /// Returns the sum of `f(j)` for j in [0, n).
  template<class T, class F>
  KOKKOS_INLINE_FUNCTION T sum(std::int64_t n, const F& f) const {
    return lane_sum<T>(n, f);
  }
  /// Returns the sum of the parts to which `f(j, part)` adds, j in [0, n). `ahead` is called as in
  /// lane_collect.
  template<class T, class F, class Ahead = NothingAhead>
  KOKKOS_INLINE_FUNCTION T collect(std::int64_t n, const F& f, const Ahead& ahead = {}) const {
    return lane_collect<T>(n, f, ahead);
  }
  /// Returns the largest `f(j)` for j in [0, n), n > 0. Values that are not a number are ignored.
  template<class F>
  KOKKOS_INLINE_FUNCTION float max(std::int64_t n, const F& f) const {
    return lane_max(n, f);
  }
  /// Calls `f(j)` for j in [0, n). The calls are independent of each other.
  template<class F>
  KOKKOS_INLINE_FUNCTION void loop(std::int64_t n, const F& f) const {
    simd_loop(n, f);
  }
  /// to[j] (+)= f(j) for j in [0, n), in fp32 and rounded once.
  template<class T, class F>
  KOKKOS_INLINE_FUNCTION void store(std::int64_t n, T* to, bool accumulate, const F& f) const {
    if (accumulate)
      loop(n, [&](std::int64_t j) { round_to(to[j], widen(to[j]) + f(j)); });
    else
      loop(n, [&](std::int64_t j) { round_to(to[j], f(j)); });
  }
  /// to[j] = f(from[j]...) for j in [0, n), in fp32 and rounded once. `to` may be among `from`.
  template<class T, class F, class... From>
  KOKKOS_INLINE_FUNCTION void map(std::int64_t n, T* to, const F& f, const From*... from) const {
    loop(n, [&](std::int64_t j) { round_to(to[j], f(widen(from[j])...)); });
  }
  /// Calls `f()` once per row, however many threads share the row.
  template<class F>
  KOKKOS_INLINE_FUNCTION void once(const F& f) const {
    f();
  }
};

using Teams = Kokkos::TeamPolicy<Space>;
using Team = Teams::member_type;

/// The number of lanes of a warp. It is a constant like `lanes`, because the order of additions
/// follows from it.
inline constexpr int warp_lanes = 32;
/// The number of rows that a team processes, one per warp.
inline constexpr int team_rows = 8;

/// A row that a warp processes. Every lane executes the code in the row's scope. Lane l has the
/// elements l, l + 32, …; sums and largest values are returned in all lanes.
struct WarpRow {
  const Team& team;

  template<class T, class F>
  KOKKOS_INLINE_FUNCTION T sum(std::int64_t n, const F& f) const {
    return collect<T>(n, [&](std::int64_t j, T& part) { part += f(j); });
  }
  template<class T, class F, class Ahead = NothingAhead>
  KOKKOS_INLINE_FUNCTION T collect(std::int64_t n, const F& f, const Ahead& = {}) const {
    T total = {};
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(team, warp_lanes),
        [&](int lane, T& sum) {
          T part = {};
          for (std::int64_t j = lane; j < n; j += warp_lanes) f(j, part);
          sum += part;
        },
        total);
    return total;
  }
  template<class F>
  KOKKOS_INLINE_FUNCTION float max(std::int64_t n, const F& f) const {
    float top = 0;
    Kokkos::parallel_reduce(
        Kokkos::ThreadVectorRange(team, warp_lanes),
        [&](int lane, float& largest) {
          for (std::int64_t j = lane; j < n; j += warp_lanes) {
            const float v = f(j);
            largest = v > largest ? v : largest;
          }
        },
        Kokkos::Max<float>(top));
    return top;
  }
  template<class F>
  KOKKOS_INLINE_FUNCTION void loop(std::int64_t n, const F& f) const {
    Kokkos::parallel_for(Kokkos::ThreadVectorRange(team, n), f);
  }
  /// Calls `f(j, n)` for the runs [j, j + n) of [0, elems). The calls are independent.
  template<int N = run_elems, class F>
  KOKKOS_INLINE_FUNCTION void runs(std::int64_t elems, const F& f) const {
    loop(runs_of<N>(elems), [&](std::int64_t run) {
      const std::int64_t j = run * N;
      f(j, elems_of_run<N>(j, elems));
    });
  }
  template<class T, class F, class... From>
  KOKKOS_INLINE_FUNCTION void map(std::int64_t elems, T* to, const F& f,
                                  const From*... from) const {
    runs(elems, [&](std::int64_t j, int n) { store_mapped(to + j, n, f, run_at(from + j, n)...); });
  }
  /// Returns the sum of the parts to which `f(j, n, part)` adds, for the runs [j, j + n) of
  /// [0, elems).
  template<class T, class F>
  KOKKOS_INLINE_FUNCTION T collect_runs(std::int64_t elems, const F& f) const {
    return collect<T>(runs_of(elems), [&](std::int64_t run, T& part) {
      const std::int64_t j = run * run_elems;
      f(j, elems_of_run(j, elems), part);
    });
  }
  template<class F>
  KOKKOS_INLINE_FUNCTION void once(const F& f) const {
    Kokkos::single(Kokkos::PerThread(team), f);
  }
};

using Row = std::conditional_t<rows_are_warps, WarpRow, ThreadRow>;

/// Returns a policy of `teams` teams. Each has `threads` threads, or as many as the device allows,
/// with `vector` lanes per thread, and `scratch_bytes` of scratch.
template<class Body, class Tag>
Teams team_policy(const Context& ctx, std::int64_t teams, int threads, int vector,
                  std::size_t scratch_bytes, const Body& body, const Tag& tag) {
  auto of = [&](int team_size) {
    Teams policy(ctx.space, static_cast<int>(teams), team_size, vector);
    policy.set_scratch_size(0, Kokkos::PerTeam(static_cast<int>(scratch_bytes)));
    return policy;
  };
  return of(std::min(threads, of(1).team_size_max(body, tag)));
}

/// The policy for kernels whose body receives either the number of a row, or a team that has
/// `team_rows` rows.
template<class Body, class Tag>
auto row_policy(const Context& ctx, std::int64_t rows, const Body& body, const Tag& tag) {
  if constexpr (rows_are_warps)
    return team_policy(ctx, (rows + team_rows - 1) / team_rows, team_rows, warp_lanes, 0, body,
                       tag);
  else
    return Range(ctx.space, 0, rows);
}

/// Calls `f(row, r)` for each row of `team`.
template<class F>
KOKKOS_INLINE_FUNCTION void for_each_row_of(const Team& team, std::int64_t rows, const F& f) {
  const std::int64_t begin = std::int64_t{team.league_rank()} * team_rows;
  const std::int64_t end = rows - begin < team_rows ? rows : begin + team_rows;
  Kokkos::parallel_for(Kokkos::TeamThreadRange(team, begin, end),
                       [&](std::int64_t r) { f(WarpRow{team}, r); });
}

/// The functor that runs `f` on one row, as a thread on the host or as a warp on a GPU.
template<class F>
struct RowBody {
  F f;
  std::int64_t rows;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t r) const { f(ThreadRow{}, r); }
  KOKKOS_INLINE_FUNCTION void operator()(const Team& team) const { for_each_row_of(team, rows, f); }
};

/// Launches `f(row, r)` for r in [0, rows) as the kernel `label`, then lets communication progress.
template<class F>
void for_each_row(const Context& ctx, const std::string& label, std::int64_t rows, const F& f) {
  const RowBody<F> body{f, rows};
  Kokkos::parallel_for(label, row_policy(ctx, rows, body, Kokkos::ParallelForTag()), body);
  ctx.progress();
}

/// The functor of a reduction over rows: it adds up what `f` returns for each row. The sum is added
/// to the earlier result unless `first`.
template<class T, class F>
struct RowSum {
  using value_type = T;
  F f;
  std::int64_t rows;
  const T* result;
  T before;
  bool first;

  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t r, T& sum) const { sum += f(ThreadRow{}, r); }
  KOKKOS_INLINE_FUNCTION void operator()(const Team& team, T& sum) const {
    for_each_row_of(team, rows, [&](const WarpRow& row, std::int64_t r) {
      const T value = f(row, r);
      row.once([&] { sum += value; });
    });
  }
  // Called once, on the complete sum. A device stores its result afterwards; a host may add in
  // place.
  KOKKOS_INLINE_FUNCTION void final(T& sum) const {
    sum += first ? T{} : on_host ? before : *result;
  }
};

/// *result (+)= the sum of `f(row, r)` for r in [0, rows); `first` overwrites. On a device the call
/// does not wait for the result.
template<class T, class F>
void sum_rows(const Context& ctx, const std::string& label, std::int64_t rows, T* result,
              bool first, const F& f) {
  T before{};
  if constexpr (on_host)
    if (!first) before = *result;
  const RowSum<T, F> body{f, rows, result, before, first};
  const Kokkos::View<T, Space::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>> to(result);
  Kokkos::parallel_reduce(label, row_policy(ctx, rows, body, Kokkos::ParallelReduceTag()), body,
                          to);
  ctx.progress();
}

/// Launches the kernel `label` over [0, elems): `body(i)` for each element on the host, `body(at,
/// n)` for each run on a GPU. A body is a struct, since nvcc accepts no kernel in a generic lambda.
template<class Body>
void for_each_value(const Context& ctx, const std::string& label, std::int64_t elems,
                    const Body& body) {
  if constexpr (rows_are_warps)
    for_each_run(ctx, label, elems, body);
  else
    for_each_elem(ctx, label, elems, body);
}

/// The bodies of map_values.
template<class F, class T, class A>
struct MapBody {
  F f;
  T* to;
  const A* a;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const { round_to(to[i], f(widen(a[i]))); }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t at, int n) const {
    store_mapped(to + at, n, f, run_at(a + at, n));
  }
};
template<class F, class T, class A, class B>
struct MapTwoBody {
  F f;
  T* to;
  const A* a;
  const B* b;
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t i) const {
    round_to(to[i], f(widen(a[i]), widen(b[i])));
  }
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t at, int n) const {
    store_mapped(to + at, n, f, run_at(a + at, n), run_at(b + at, n));
  }
};

/// to[i] = f(a[i]), or f(a[i], b[i]), for i in [0, elems), in fp32 and rounded once, as the kernel
/// `label`. `to` may be a or b.
template<class T, class F, class A>
void map_values(const Context& ctx, const std::string& label, std::int64_t elems, T* to, const F& f,
                const A* a) {
  for_each_value(ctx, label, elems, MapBody<F, T, A>{f, to, a});
}
template<class T, class F, class A, class B>
void map_values(const Context& ctx, const std::string& label, std::int64_t elems, T* to, const F& f,
                const A* a, const B* b) {
  for_each_value(ctx, label, elems, MapTwoBody<F, T, A, B>{f, to, a, b});
}

}  // namespace shardmark::kernel
