// SPDX-License-Identifier: Apache-2.0
// Replaces core/nn/gpu/block.cuh, so that native kernels run on the host, one block after another.
// The threads of a block take turns in an order that is drawn anew each time, so that a missing
// barrier shows, and shared memory is filled with NaNs first. The program is ended if threads of a
// warp make different calls, if all threads wait for each other, or if a matrix is not in shared
// memory.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#include <core/gpu_runtime.hpp>
#include <core/numeric/half.hpp>

#undef __global__
#undef __device__
#undef __launch_bounds__
#define __global__
#define __device__
#define __launch_bounds__(threads)

namespace shardmark::device {

#define SHARDMARK_TENSOR_CORES
inline constexpr bool has_tensor_cores = true;
inline constexpr int shared_bytes_of_block = 160 << 10;

inline uint3 threadIdx, blockIdx;
inline dim3 gridDim;

namespace stand_in {

inline constexpr int warp_lanes = 32;

/// What the lanes of a warp pass to each other, by lane.
struct Handed {
  alignas(16) std::byte bytes[48];
};

/// Waits until all threads of the block have arrived.
void await_block();
/// Waits until all lanes of the caller's warp have made this `call`. Returns what each lane passed.
const Handed* exchange(const char* call, const void* mine, std::size_t bytes);
std::byte* shared_memory();
/// Remembers a copy of the calling thread: `bytes` bytes and zeros up to `size`. await_copies makes
/// it, so that a missing wait shows.
void start_copy(void* to_shared, const void* from, std::size_t bytes, std::size_t size);
void await_copies();
/// Ends the program unless [from, from + bytes) is in the shared memory of this block and aligned
/// to 16 bytes.
void require_shared(const void* from, std::size_t bytes);
void run_grid(dim3 grid, int threads, std::size_t shared_bytes,
              const std::function<void()>& kernel);

template<class T>
T read(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}
inline int lane() {
  return static_cast<int>(threadIdx.x) % warp_lanes;
}

}  // namespace stand_in

inline void __syncthreads() {
  stand_in::await_block();
}

template<class T>
T* shared_memory() {
  return reinterpret_cast<T*>(stand_in::shared_memory());
}

inline float from_lane_xor(float value, int mask) {
  const auto* all = stand_in::exchange("from_lane_xor", &value, sizeof value);
  return stand_in::read<float>(all[stand_in::lane() ^ mask].bytes);
}

inline float quick_exp2(float x) {
  return std::exp2(x);
}

template<int Bytes>
void start_copy(void* to_shared, const void* from, bool there) {
  stand_in::start_copy(to_shared, from, there ? Bytes : 0, Bytes);
}
inline void await_copies() {
  stand_in::await_copies();
}

template<class T>
std::uint32_t packed(float low, float high) {
  T parts[2];
  round_to(parts[0], low);
  round_to(parts[1], high);
  return parts[0].bits | std::uint32_t{parts[1].bits} << 16;
}

struct Fragment {
  std::uint32_t part[4];
};

// Element [row][column] of matrix i is a 16-bit value; lane 8 i + row passed the address of the
// row.
inline Fragment gather(const char* call, const void* my_row, bool transposed) {
  constexpr int row_bytes = 16;
  stand_in::require_shared(my_row, row_bytes);
  const auto* all = stand_in::exchange(call, &my_row, sizeof my_row);
  const int lane = stand_in::lane();
  Fragment f{};
  for (int i = 0; i < 4; ++i)
    for (int half = 0; half < 2; ++half) {
      int row = lane / 4, column = lane % 4 * 2 + half;
      if (transposed) std::swap(row, column);
      const auto* at = stand_in::read<const std::uint16_t*>(all[i * 8 + row].bytes);
      f.part[i] |= std::uint32_t{at[column]} << (16 * half);
    }
  return f;
}
inline Fragment load_matrices(const void* row) {
  return gather("load_matrices", row, false);
}
inline Fragment load_transposed(const void* row) {
  return gather("load_transposed", row, true);
}

// The lanes pass their operands widened, since eight lanes read each.
template<class T>
void multiply_add(float (&sum)[4], const Fragment& a, std::uint32_t b0, std::uint32_t b1) {
  struct Operands {
    float a[4][2], b[2][2];
  } mine;
  const auto widen_both = [](std::uint32_t both, float(&to)[2]) {
    for (int half = 0; half < 2; ++half)
      to[half] = widen(T{static_cast<std::uint16_t>(both >> (16 * half))});
  };
  for (int i = 0; i < 4; ++i) widen_both(a.part[i], mine.a[i]);
  widen_both(b0, mine.b[0]);
  widen_both(b1, mine.b[1]);
  const auto* all = stand_in::exchange("multiply_add", &mine, sizeof mine);
  const auto of = [&](int lane) { return reinterpret_cast<const Operands*>(all[lane].bytes); };
  for (int e = 0; e < 4; ++e) {
    const int row = stand_in::lane() / 4 + e / 2 * 8, column = stand_in::lane() % 4 * 2 + e % 2;
    for (int k = 0; k < 16; ++k)
      sum[e] += of(row % 8 * 4 + k % 8 / 2)->a[row / 8 + k / 8 * 2][k % 2] *
                of(column * 4 + k % 8 / 2)->b[k / 8][k % 2];
  }
}

template<class... Parameters, class... Arguments>
void launch(device::Stream, void (*kernel)(Parameters...), dim3 grid, int threads,
            std::size_t shared_bytes, Arguments... arguments) {
  stand_in::run_grid(grid, threads, shared_bytes,
                     [&] { kernel(static_cast<Parameters>(arguments)...); });
}

}  // namespace shardmark::device
