// SPDX-License-Identifier: Apache-2.0
// Kernels over tensors of any storage type whose arithmetic is compiled once: on the host a thread
// works through its elements piece by piece, and the values of a piece in fp32 stay in the L1
// cache. Beside the memory traffic, that costs nothing that can be measured. On a GPU a piece is
// one element.
#pragma once

#include <cstdint>
#include <type_traits>

#include <core/nn/kernels/kernel.hpp>
#include <core/numeric/half.hpp>
#include <core/numeric/prefetch.hpp>
#include <core/numeric/stream_store.hpp>

namespace shardmark::kernel {

/// The largest number of elements of a piece.
inline constexpr std::int64_t piece_elems = on_host ? 2048 : 1;

/// Returns the elements [at, at + n) of `from` in fp32: the tensor itself, or `widened`.
template<class T>
KOKKOS_INLINE_FUNCTION const float* widen_piece(const void* from, std::int64_t at, std::int64_t n,
                                                [[maybe_unused]] float* widened) {
  const T* source = static_cast<const T*>(from) + at;
  if constexpr (std::is_same_v<T, float>) {
    return source;
  } else {
    strip_loop(
        n, [&](std::int64_t j) { widened[j] = widen(source[j]); },
        [&](std::int64_t j) { prefetch_after(source + j, lanes); });
    return widened;
  }
}
KOKKOS_INLINE_FUNCTION const float* widen_piece(Dtype dtype, const void* from, std::int64_t at,
                                                std::int64_t n, float* widened) {
  if (dtype == Dtype::bf16) return widen_piece<Bf16>(from, at, n, widened);
  if (dtype == Dtype::fp16) return widen_piece<Fp16>(from, at, n, widened);
  return widen_piece<float>(from, at, n, widened);
}

/// Rounds `values` and stores them as elements [at, at + n) of `to`. With `streams`, the stores
/// bypass the caches, and the thread calls `finish_streams` after its last piece.
template<class T>
KOKKOS_INLINE_FUNCTION void round_piece(void* to, std::int64_t at, std::int64_t n,
                                        const float* values, [[maybe_unused]] bool streams) {
  T* const result = static_cast<T*>(to) + at;
  if constexpr (on_host)
    if (streams) {
      const auto bytes = static_cast<std::size_t>(n) * sizeof(T);
      if constexpr (std::is_same_v<T, float>) return stream_copy(result, values, bytes);
      T rounded[piece_elems];
      simd_loop(n, [&](std::int64_t j) { round_to(rounded[j], values[j]); });
      return stream_copy(result, rounded, bytes);
    }
  simd_loop(n, [&](std::int64_t j) { round_to(result[j], values[j]); });
}
KOKKOS_INLINE_FUNCTION void round_piece(Dtype dtype, void* to, std::int64_t at, std::int64_t n,
                                        const float* values, bool streams) {
  if (dtype == Dtype::bf16) return round_piece<Bf16>(to, at, n, values, streams);
  if (dtype == Dtype::fp16) return round_piece<Fp16>(to, at, n, values, streams);
  round_piece<float>(to, at, n, values, streams);
}

/// Calls `f(at, n)` for the pieces of [begin, end), one after the other.
template<class F>
KOKKOS_INLINE_FUNCTION void for_pieces(std::int64_t begin, std::int64_t end, const F& f) {
  for (std::int64_t at = begin; at < end; at += piece_elems)
    f(at, end - at < piece_elems ? end - at : piece_elems);
}

/// Launches the kernel `label`, which calls `f(at, n)` for all pieces of [0, elems). With
/// `streams`, a thread has larger blocks of them, each of which ends with one store fence.
template<class F>
void for_each_piece(const Context& ctx, const char* label, std::int64_t elems, bool streams,
                    const F& f) {
  const std::int64_t block = on_host && streams ? stream_block : elem_chunk;
  for_each(
      ctx, label, (elems + block - 1) / block, KOKKOS_LAMBDA(std::int64_t b) {
        const F local = f;  // a copy in registers: stores cannot alias what the lambda captured
        const std::int64_t begin = b * block, rest = elems - begin;
        for_pieces(begin, begin + (rest < block ? rest : block), local);
        if constexpr (on_host)
          if (streams) finish_streams();
      });
}

}  // namespace shardmark::kernel
