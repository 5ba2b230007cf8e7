// SPDX-License-Identifier: Apache-2.0
// Kernels over tensors of any storage type whose arithmetic is compiled once: on the host a thread
// works through its elements piece by piece, and the values of a piece in fp32 stay in the L1
// cache. Buffers must begin at a cache line, as slots do: otherwise a piece that is read again
// waits for its stores, and an update in 16 bits takes 1.4 times as long. On a GPU a piece is one
// element.
#pragma once

#include <cstdint>
#include <type_traits>

#include <core/nn/kernels/kernel.hpp>
#include <core/nn/kernels/storage.hpp>
#include <core/numeric/half.hpp>
#include <core/numeric/prefetch.hpp>
#include <core/numeric/stream_store.hpp>

namespace shardmark::kernel {

/// The largest number of elements of a piece.
inline constexpr std::int64_t piece_elems = on_host ? 256 : 1;

/// Returns the elements [at, at + n) of `from` in fp32: the tensor itself, or `widened`.
template<class T>
KOKKOS_INLINE_FUNCTION const float* widen_piece(const void* from, std::int64_t at, std::int64_t n,
                                                [[maybe_unused]] float* widened) {
  const T* source = static_cast<const T*>(from) + at;
  if constexpr (std::is_same_v<T, float>) {
    prefetch_after(source, static_cast<std::size_t>(n));
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

/// Where a thread stores its results. With `streams`, they bypass the caches: they are collected in
/// the L1 cache, and long runs of them are written at once.
class Results {
 public:
  KOKKOS_INLINE_FUNCTION Results(Dtype dtype, void* to, bool streams)
      : dtype_(dtype), streams_(on_host && streams), to_(to) {}
  /// Rounds `values` and stores them as elements [at, at + n), a piece at most. While the results
  /// are streamed, they must follow those of the call before.
  KOKKOS_INLINE_FUNCTION void put(std::int64_t at, std::int64_t n, const float* values) {
    if (dtype_ == Dtype::bf16) return put_as<Bf16>(at, n, values);
    if (dtype_ == Dtype::fp16) return put_as<Fp16>(at, n, values);
    put_as<float>(at, n, values);
  }
  /// Must be called after the last piece.
  KOKKOS_INLINE_FUNCTION void finish() {
    if constexpr (on_host)
      if (streams_) {
        write();
        finish_streams();
      }
  }

 private:
  static constexpr std::int64_t most_elems = on_host ? 2048 : 1;

  template<class T>
  KOKKOS_INLINE_FUNCTION void put_as(std::int64_t at, std::int64_t n, const float* values) {
    T* to = static_cast<T*>(to_) + at;
    if (streams_) {
      if (elems_ + n > most_elems) write();
      if (elems_ == 0) run_ = to;
      to = reinterpret_cast<T*>(bytes_) + elems_;
      elems_ += n;
      elem_bytes_ = sizeof(T);
    }
    simd_loop(n, [&](std::int64_t j) { round_to(to[j], values[j]); });
  }
  KOKKOS_INLINE_FUNCTION void write() {
    if constexpr (on_host)
      stream_copy(run_, bytes_, static_cast<std::size_t>(elems_) * elem_bytes_);
    elems_ = 0;
  }

  Dtype dtype_;
  bool streams_;
  void* to_;
  void* run_ = nullptr;
  std::int64_t elems_ = 0;
  std::size_t elem_bytes_ = 0;
  alignas(64) unsigned char bytes_[most_elems * sizeof(float)];
};

/// Calls `f(at, n)` for the pieces of [begin, end), one after the other.
template<class F>
KOKKOS_INLINE_FUNCTION void for_pieces(std::int64_t begin, std::int64_t end, const F& f) {
  for (std::int64_t at = begin; at < end; at += piece_elems)
    f(at, end - at < piece_elems ? end - at : piece_elems);
}

/// Launches the kernel `label`, which calls `f(at, count)` for the parts of [0, elems) that one
/// thread each processes. They are larger if the results are streamed: each ends with a fence.
template<class F>
void for_each_part(const Context& ctx, const char* label, std::int64_t elems, bool streams,
                   const F& f) {
  const std::int64_t part = on_host && streams ? stream_block : elem_chunk;
  for_each(
      ctx, label, (elems + part - 1) / part, KOKKOS_LAMBDA(std::int64_t p) {
        const F local = f;  // a copy in registers: stores cannot alias what the lambda captured
        const std::int64_t begin = p * part, rest = elems - begin;
        local(begin, rest < part ? rest : part);
      });
}

/// Launches the kernel `label`, which calls `f(at, n, results)` for all pieces of [0, elems).
/// `results` stores what f puts as elements of `to`.
template<class F>
void for_each_piece(const Context& ctx, const char* label, std::int64_t elems, Stored to,
                    bool streams, const F& f) {
  for_each_part(
      ctx, label, elems, streams, KOKKOS_LAMBDA(std::int64_t begin, std::int64_t count) {
        Results results(to.dtype, to.data, streams);
        for_pieces(begin, begin + count,
                   [&](std::int64_t at, std::int64_t n) { f(at, n, results); });
        results.finish();
      });
}

}  // namespace shardmark::kernel
