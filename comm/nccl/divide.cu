// SPDX-License-Identifier: Apache-2.0
// Gives the same values as `divide` of comm/local_reduction.cpp: it divides, and does not multiply
// by the reciprocal.
#include <algorithm>
#include <type_traits>

#if defined(__HIP_PLATFORM_AMD__)
#include <hip/hip_runtime.h>
#endif

#include <comm/nccl/divide.hpp>
#include <comm/nccl/nccl_check.hpp>
#include <core/numeric/half.hpp>

namespace shardmark {
namespace {

constexpr int threads = 256;
constexpr std::int64_t most_blocks = 1024;  // larger arrays are processed in strides

template<class T>
__device__ T quotient(T value, int divisor) {
  if constexpr (std::is_arithmetic_v<T>) {
    return value / static_cast<T>(divisor);
  } else {
    T rounded;
    round_to(rounded, widen(value) / static_cast<float>(divisor));
    return rounded;
  }
}

template<class T>
__global__ void divide_kernel(T* data, std::int64_t elems, int divisor) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elems;
       i += stride)
    data[i] = quotient(data[i], divisor);
}

template<class T>
void launch(device::Stream stream, void* data, std::int64_t elems, int divisor) {
  const auto blocks =
      static_cast<unsigned>(std::min<std::int64_t>((elems + threads - 1) / threads, most_blocks));
  divide_kernel<<<blocks, threads, 0, stream>>>(static_cast<T*>(data), elems, divisor);
  SHARDMARK_RUNTIME(GetLastError);
}

}  // namespace

void divide_on_stream(device::Stream stream, Dtype dtype, void* data, std::int64_t elems,
                      int divisor) {
  switch (dtype) {
    case Dtype::fp32: return launch<float>(stream, data, elems, divisor);
    case Dtype::bf16: return launch<Bf16>(stream, data, elems, divisor);
    case Dtype::fp16: return launch<Fp16>(stream, data, elems, divisor);
    case Dtype::fp64: return launch<double>(stream, data, elems, divisor);
    case Dtype::int8: return launch<std::int8_t>(stream, data, elems, divisor);
    case Dtype::uint8: return launch<std::uint8_t>(stream, data, elems, divisor);
    case Dtype::int32: return launch<std::int32_t>(stream, data, elems, divisor);
    case Dtype::int64: return launch<std::int64_t>(stream, data, elems, divisor);
  }
}

}  // namespace shardmark
