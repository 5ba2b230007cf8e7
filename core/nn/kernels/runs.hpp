// SPDX-License-Identifier: Apache-2.0
// How a GPU works through tensors of any storage type: a thread has a run of eight elements, or of
// four if most of them are fp32, which it loads and stores with instructions of 16 bytes if they
// are aligned to that. Loads of one element each would keep too few bytes in flight to use the
// memory's bandwidth. Runs of eight in fp32 would take two instructions, each of which leaves gaps
// of 16 bytes between the lanes; pinned host memory is then read and written at a quarter of the
// link's bandwidth.
#pragma once

#include <cstdint>
#include <cstring>

#include <core/nn/kernels/kernel.hpp>
#include <core/numeric/half.hpp>
#include <core/on_device.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark::kernel {

/// The number of elements of a run, and of a short run, for arrays of fp32. The last run of an
/// array may have fewer.
inline constexpr int run_elems = 8, short_run_elems = 4;

namespace detail {

inline constexpr std::size_t vector_bytes = 16;

// True if N elements of T at `address` can be copied by vectors.
template<class T, int N>
KOKKOS_INLINE_FUNCTION bool is_aligned(const T* address) {
  constexpr std::size_t bytes = sizeof(T) * N;
  return reinterpret_cast<std::uintptr_t>(address) %
             (bytes < vector_bytes ? bytes : vector_bytes) ==
         0;
}

// Copies N elements of T, 8 bytes or a multiple of 16, from or to an aligned address.
template<class T, int N>
KOKKOS_INLINE_FUNCTION void copy_vectors(T* to, const T* from) {
#if defined(SHARDMARK_ON_DEVICE)
  constexpr std::size_t bytes = sizeof(T) * N;
  if constexpr (bytes < vector_bytes) {
    *reinterpret_cast<uint2*>(to) = *reinterpret_cast<const uint2*>(from);
  } else {
    for (std::size_t i = 0; i < bytes / vector_bytes; ++i)
      reinterpret_cast<uint4*>(to)[i] = reinterpret_cast<const uint4*>(from)[i];
  }
#else
  std::memcpy(to, from, sizeof(T) * N);
#endif
}

#if defined(__CUDA_ARCH__)
// The processor rounds two values at once, as round_to does.
__device__ inline void round_pair(Bf16* to, float low, float high) {
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
      : "=r"(*reinterpret_cast<std::uint32_t*>(to))
      : "f"(high), "f"(low));
}
__device__ inline void round_pair(Fp16* to, float low, float high) {
  asm("cvt.rn.f16x2.f32 %0, %1, %2;"
      : "=r"(*reinterpret_cast<std::uint32_t*>(to))
      : "f"(high), "f"(low));
}
__device__ inline void round_pair(float* to, float low, float high) {
  to[0] = low, to[1] = high;
}
#else
template<class T>
KOKKOS_INLINE_FUNCTION void round_pair(T* to, float low, float high) {
  round_to(to[0], low);
  round_to(to[1], high);
}
#endif

}  // namespace detail

/// Returns the elements from[0, n) in fp32, n <= N, and zeros after them.
template<class T, int N>
KOKKOS_INLINE_FUNCTION void load_run(const T* from, int n, float (&values)[N]) {
  if (n == N && detail::is_aligned<T, N>(from)) {
    alignas(detail::vector_bytes) T stored[N];
    detail::copy_vectors<T, N>(stored, from);
    for (int j = 0; j < N; ++j) values[j] = widen(stored[j]);
  } else {
    for (int j = 0; j < N; ++j) values[j] = j < n ? widen(from[j]) : 0.0f;
  }
}
/// Rounds the first n values, n <= N, and stores them to to[0, n).
template<class T, int N>
KOKKOS_INLINE_FUNCTION void store_run(T* to, int n, const float (&values)[N]) {
  if (n == N && detail::is_aligned<T, N>(to)) {
    alignas(detail::vector_bytes) T stored[N];
    for (int j = 0; j < N; j += 2) detail::round_pair(stored + j, values[j], values[j + 1]);
    detail::copy_vectors<T, N>(to, stored);
  } else {
    for (int j = 0; j < N; ++j)
      if (j < n) round_to(to[j], values[j]);
  }
}

/// Does the same for the elements [at, at + n) of a tensor of `dtype`.
template<int N>
KOKKOS_INLINE_FUNCTION void load_run(Dtype dtype, const void* from, std::int64_t at, int n,
                                     float (&values)[N]) {
  if (dtype == Dtype::bf16) return load_run(static_cast<const Bf16*>(from) + at, n, values);
  if (dtype == Dtype::fp16) return load_run(static_cast<const Fp16*>(from) + at, n, values);
  load_run(static_cast<const float*>(from) + at, n, values);
}
template<int N>
KOKKOS_INLINE_FUNCTION void store_run(Dtype dtype, void* to, std::int64_t at, int n,
                                      const float (&values)[N]) {
  if (dtype == Dtype::bf16) return store_run(static_cast<Bf16*>(to) + at, n, values);
  if (dtype == Dtype::fp16) return store_run(static_cast<Fp16*>(to) + at, n, values);
  store_run(static_cast<float*>(to) + at, n, values);
}

/// The values of a run in fp32.
struct Run {
  float values[run_elems];
};
/// Returns the elements from[0, n), and zeros after them.
template<class T>
KOKKOS_INLINE_FUNCTION Run run_at(const T* from, int n) {
  Run run;
  load_run(from, n, run.values);
  return run;
}
/// to[j] = f(runs.values[j]...) for j in [0, n), rounded once.
template<class T, class F, class... Runs>
KOKKOS_INLINE_FUNCTION void store_mapped(T* to, int n, const F& f, const Runs&... runs) {
  Run mapped;
  for (int j = 0; j < run_elems; ++j) mapped.values[j] = f(runs.values[j]...);
  store_run(to, n, mapped.values);
}

/// Copies n elements of T, n <= N, without a change of a bit.
template<int N, class T>
KOKKOS_INLINE_FUNCTION void copy_run(T* to, const T* from, int n) {
  if (n == N && detail::is_aligned<T, N>(to) && detail::is_aligned<T, N>(from)) {
    detail::copy_vectors<T, N>(to, from);
  } else {
    for (int j = 0; j < N; ++j)
      if (j < n) to[j] = from[j];
  }
}

/// Returns the number of runs of an array.
template<int N = run_elems>
KOKKOS_INLINE_FUNCTION std::int64_t runs_of(std::int64_t elems) {
  return (elems + N - 1) / N;
}
/// Returns the number of elements of the run that begins at `at`.
template<int N = run_elems>
KOKKOS_INLINE_FUNCTION int elems_of_run(std::int64_t at, std::int64_t elems) {
  return elems - at < N ? static_cast<int>(elems - at) : N;
}

/// Launches the kernel `label`, which calls `f(at, n)` for the runs [at, at + n) of [0, elems).
template<int N = run_elems, class F>
void for_each_run(const Context& ctx, const std::string& label, std::int64_t elems, const F& f) {
  for_each(
      ctx, label, runs_of<N>(elems), KOKKOS_LAMBDA(std::int64_t run) {
        const std::int64_t at = run * N;
        f(at, elems_of_run<N>(at, elems));
      });
}

}  // namespace shardmark::kernel
