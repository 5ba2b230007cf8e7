// SPDX-License-Identifier: Apache-2.0
// The bandwidth of memory, for comparison: a triad a[i] = b[i] + s c[i] on every rank at once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include <Kokkos_Core.hpp>
#include <ci/bench.d/turns.hpp>

#include <comm/mpi/mpi_check.hpp>
#include <core/kokkos_shim.hpp>
#include <miniapp/execute/slot_memory.hpp>

namespace shardmark::bench {

using Array = Kokkos::View<float*, Space::memory_space>;

inline Array make_array(const std::string& name, std::int64_t elems) {
  Array array(Kokkos::view_alloc(Kokkos::WithoutInitializing, name),
              static_cast<std::size_t>(elems));
  prefer_huge_pages(Tier::device, reinterpret_cast<std::byte*>(array.data()), elems * 4);
  std::fill_n(array.data(), elems, 1e-3f);
  return array;
}

/// 12 bytes per element; the cache line that a store fetches first is not counted.
inline void triad(float* a, const float* b, const float* c, std::int64_t elems) {
  for (std::int64_t i = 0; i < elems; ++i) a[i] = b[i] + 3.0f * c[i];
}
inline constexpr double triad_bytes = 12;

/// Collective. The largest value over the ranks.
inline double slowest(MPI_Comm world, double mine) {
  SHARDMARK_MPI(MPI_Allreduce(MPI_IN_PLACE, &mine, 1, MPI_DOUBLE, MPI_MAX, world));
  return mine;
}

/// Collective. The seconds of the slowest rank for `work`, which all ranks start at once.
template<class Work>
double together(MPI_Comm world, Work&& work) {
  SHARDMARK_MPI(MPI_Barrier(world));
  return slowest(world, seconds_of(work));
}

}  // namespace shardmark::bench
