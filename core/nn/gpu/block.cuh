// SPDX-License-Identifier: Apache-2.0
// What the native kernels need of a device besides arithmetic: shared memory of a block, exchange
// between the lanes of a warp, tensor cores, and launches. The tests replace this file by
// tests/core/nn/gpu/stand_ins/core/nn/gpu/block.cuh, which runs the threads of a block in turns
// on a host.
//
// Source of the register layouts: PTX ISA, "Matrix fragments for mma.m16n8k16" and "ldmatrix".
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__HIP_PLATFORM_AMD__)
#include <hip/hip_runtime.h>
#else
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

#include <core/gpu_runtime.hpp>
#include <core/nn/gpu/check.hpp>
#include <core/numeric/half.hpp>

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "ShardMark's kernels need tensor cores that know bf16: sm_80 or newer"
#endif

namespace shardmark::device {

/// Returns the dynamic shared memory of the caller's block.
template<class T>
__device__ inline T* shared_memory() {
  extern __shared__ uint4 shared_memory_of_block[];
  return reinterpret_cast<T*>(shared_memory_of_block);
}

/// Returns the value of the lane whose number differs from the caller's in the bits of `mask`.
__device__ inline float from_lane_xor(float value, int mask) {
#if defined(__HIP_PLATFORM_AMD__)
  return __shfl_xor(value, mask, 32);  // half of a wavefront is a warp here
#else
  return __shfl_xor_sync(0xffffffffu, value, mask);
#endif
}

/// Whether there are tensor cores as the rest of this file spells them, and the shared memory that
/// every block may have, in bytes.
#if defined(__HIP_PLATFORM_AMD__)
inline constexpr bool has_tensor_cores = false;
inline constexpr int shared_bytes_of_block = 64 << 10;
#else
#define SHARDMARK_TENSOR_CORES
inline constexpr bool has_tensor_cores = true;
inline constexpr int shared_bytes_of_block = 160 << 10;
#endif

#if defined(SHARDMARK_TENSOR_CORES)
/// Returns 2^x with the precision of a 16-bit operand.
__device__ inline float quick_exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/// Starts to copy Bytes (4 or 16) from global to shared memory, both aligned to that size, or to
/// store zeros if not `there`; `from` is an address of the same array even then.
template<int Bytes>
__device__ inline void start_copy(void* to_shared, const void* from, bool there) {
  const auto to = static_cast<std::uint32_t>(__cvta_generic_to_shared(to_shared));
  const int bytes = there ? Bytes : 0;
  if constexpr (Bytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(to), "l"(from), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                 :
                 : "r"(to), "l"(from), "n"(Bytes), "r"(bytes)
                 : "memory");
}
/// Waits for the copies that the calling thread started. Other threads see them after a barrier.
__device__ inline void await_copies() {
  asm volatile("cp.async.wait_all;" : : : "memory");
}

/// Rounds two values to T and packs them, the first into the lower half.
template<class T>
__device__ inline std::uint32_t packed(float low, float high);
template<>
__device__ inline std::uint32_t packed<Bf16>(float low, float high) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}
template<>
__device__ inline std::uint32_t packed<Fp16>(float low, float high) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const std::uint32_t*>(&both);
}

/// A 16 x 16 operand of 16-bit values: four 8 x 8 matrices over the lanes of a warp.
struct Fragment {
  std::uint32_t part[4];
};

// PTX is text, so the parts that differ are pasted into it.
#define SHARDMARK_LDMATRIX(transposed, row)                                                     \
  Fragment f;                                                                                   \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4" transposed ".shared.b16 {%0, %1, %2, %3}, [%4];" \
               : "=r"(f.part[0]), "=r"(f.part[1]), "=r"(f.part[2]), "=r"(f.part[3])             \
               : "r"(static_cast<std::uint32_t>(__cvta_generic_to_shared(row)))                 \
               : "memory");                                                                     \
  return f
#define SHARDMARK_MMA(type, sum, a, b0, b1)                                           \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                 \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])               \
               : "r"(a.part[0]), "r"(a.part[1]), "r"(a.part[2]), "r"(a.part[3]), "r"(b0), "r"(b1))

/// Loads four 8 x 8 matrices from shared memory. Lane 8 i + r passes the address of row r of matrix
/// i (aligned to 16 bytes). All lanes of the warp must call it.
__device__ inline Fragment load_matrices(const void* row) {
  SHARDMARK_LDMATRIX("", row);
}
/// Does the same and transposes each matrix.
__device__ inline Fragment load_transposed(const void* row) {
  SHARDMARK_LDMATRIX(".trans", row);
}

/// sum[16][8] += a[16][16] b[16][8], in fp32. `b0` and `b1` are the upper and the lower half of b.
/// All lanes of the warp must call it.
template<class T>
__device__ inline void multiply_add(float (&sum)[4], const Fragment& a, std::uint32_t b0,
                                    std::uint32_t b1) {
  if constexpr (std::is_same_v<T, Bf16>)
    SHARDMARK_MMA("bf16", sum, a, b0, b1);
  else
    SHARDMARK_MMA("f16", sum, a, b0, b1);
}
#undef SHARDMARK_LDMATRIX
#undef SHARDMARK_MMA
#endif

/// Enqueues `kernel` on `stream` with `bytes` of shared memory per block. Throws CommError if the
/// launch fails.
template<class... Parameters, class... Arguments>
void launch(device::Stream stream, void (*kernel)(Parameters...), dim3 grid, int threads,
            std::size_t bytes, Arguments... arguments) {
  // A kernel must request shared memory beyond what every device grants by default.
  SHARDMARK_DEVICE(FuncSetAttribute, reinterpret_cast<const void*>(kernel),
                   SHARDMARK_GPU(FuncAttributeMaxDynamicSharedMemorySize), static_cast<int>(bytes));
  kernel<<<grid, static_cast<unsigned>(threads), bytes, stream>>>(
      static_cast<Parameters>(arguments)...);
  SHARDMARK_DEVICE(GetLastError);
}

}  // namespace shardmark::device
