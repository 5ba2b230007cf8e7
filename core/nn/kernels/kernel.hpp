// SPDX-License-Identifier: Apache-2.0
// How the kernels of core/nn are written: launches on the context's execution-space instance, and
// loops that compilers vectorise without changing the result. In an elementwise loop the value of
// an element does not depend on its position. A row reduction adds in an order that depends on the
// length of the row alone. Therefore neither the alignment of a buffer nor the start of a shard
// changes a bit.
#pragma once

#include <cstdint>
#include <string>

#include <core/nn/kernels/context.hpp>

namespace shardmark::kernel {

/// Calls `f(j)` for j in [0, n). The iterations are independent, so they may run as vectors.
template<class F>
KOKKOS_INLINE_FUNCTION void simd_loop(std::int64_t n, const F& f) {
#if defined(__clang__)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"  // a build without optimisation has no vector code
#pragma clang loop vectorize(assume_safety)
  for (std::int64_t j = 0; j < n; ++j) f(j);
#pragma clang diagnostic pop
#else
#pragma GCC ivdep
  for (std::int64_t j = 0; j < n; ++j) f(j);
#endif
}

/// The number of partial results of a row reduction. It is a constant, because the order of
/// additions follows from it.
inline constexpr std::int64_t lanes = 64;

/// Does the same as simd_loop, and calls `ahead(j)` before each 64 elements, for example to
/// prefetch.
template<class F, class Ahead>
KOKKOS_INLINE_FUNCTION void strip_loop(std::int64_t n, const F& f, const Ahead& ahead) {
  const std::int64_t full = n / lanes * lanes;
  for (std::int64_t first = 0; first < full; first += lanes) {
    ahead(first);
    simd_loop(lanes, [&](std::int64_t l) { f(first + l); });
  }
  simd_loop(n - full, [&](std::int64_t l) { f(full + l); });
}

/// The `ahead` of a loop that prefetches nothing.
struct NothingAhead {
  KOKKOS_INLINE_FUNCTION void operator()(std::int64_t) const {}
};

/// Returns the sum of 64 partial results, called lanes. `f(j, part)` adds element j in [0, n) to a
/// lane: lane l has the elements l, l + 64, …. The lanes are then added as a tree. `ahead(j)` is
/// called before each 64 elements.
template<class T, class F, class Ahead = NothingAhead>
KOKKOS_INLINE_FUNCTION T lane_collect(std::int64_t n, const F& f, const Ahead& ahead = {}) {
  T part[lanes] = {};
  const std::int64_t full = n / lanes * lanes;
  for (std::int64_t j = 0; j < full; j += lanes) {
    ahead(j);
    simd_loop(lanes, [&](std::int64_t l) { f(j + l, part[l]); });
  }
  for (std::int64_t j = full; j < n; ++j) f(j, part[j - full]);
  for (std::int64_t width = lanes / 2; width > 0; width /= 2)
    for (std::int64_t l = 0; l < width; ++l) part[l] += part[l + width];
  return part[0];
}

/// Returns the sum of `f(j)` for j in [0, n), added in the same order as in lane_collect.
template<class T, class F>
KOKKOS_INLINE_FUNCTION T lane_sum(std::int64_t n, const F& f) {
  return lane_collect<T>(n, [&](std::int64_t j, T& part) { part += f(j); });
}

/// Returns the largest `f(j)` for j in [0, n), n > 0. Values that are not a number are ignored.
template<class F>
KOKKOS_INLINE_FUNCTION float lane_max(std::int64_t n, const F& f) {
  float part[lanes];
  for (std::int64_t l = 0; l < lanes; ++l) part[l] = f(l < n ? l : 0);
  const std::int64_t full = n / lanes * lanes;
  for (std::int64_t j = lanes; j < full; j += lanes)
    simd_loop(lanes, [&](std::int64_t l) {
      const float v = f(j + l);
      part[l] = v > part[l] ? v : part[l];
    });
  for (std::int64_t j = full; j < n; ++j) {
    const float v = f(j);
    part[j - full] = v > part[j - full] ? v : part[j - full];
  }
  for (std::int64_t width = lanes / 2; width > 0; width /= 2)
    for (std::int64_t l = 0; l < width; ++l)
      part[l] = part[l + width] > part[l] ? part[l + width] : part[l];
  return part[0];
}

using Range = Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>;

/// Launches `f(i)` for i in [0, n) as the kernel `label`, then lets communication progress. `f` is
/// the whole work of one iteration: a row, a strip of columns, or a tile.
template<class F>
void for_each(const Context& ctx, const std::string& label, std::int64_t n, const F& f) {
  Kokkos::parallel_for(label, Range(ctx.space, 0, n), f);
  ctx.progress();
}

/// True if one thread should process a run of consecutive elements; false if neighbouring threads
/// should process neighbouring elements.
inline constexpr bool on_host = Kokkos::SpaceAccessibility<Space, Kokkos::HostSpace>::accessible;

/// The number of elements that one iteration of `for_each_elem` covers.
inline constexpr std::int64_t elem_chunk = on_host ? 8192 : 1;

/// Does the same as for_each, for kernels with little work for each of many elements.
template<class F>
void for_each_elem(const Context& ctx, const std::string& label, std::int64_t elems, const F& f) {
  const std::int64_t chunks = (elems + elem_chunk - 1) / elem_chunk;
  for_each(
      ctx, label, chunks, KOKKOS_LAMBDA(std::int64_t c) {
        const F local = f;  // a copy in registers: stores cannot alias what the lambda captured
        const std::int64_t begin = c * elem_chunk;
        const std::int64_t count = elems - begin < elem_chunk ? elems - begin : elem_chunk;
        simd_loop(count, [&](std::int64_t j) { local(begin + j); });
      });
}

}  // namespace shardmark::kernel
