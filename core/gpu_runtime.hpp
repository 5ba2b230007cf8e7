// SPDX-License-Identifier: Apache-2.0
// The one place that says whether the calls of a GPU's run time are CUDA's or HIP's, which differ
// by their prefix: SHARDMARK_GPU(StreamSynchronize) is cudaStreamSynchronize or
// hipStreamSynchronize. A build with Kokkos' HIP defines __HIP_PLATFORM_AMD__.
#pragma once

#include <chrono>  // before HIP's macro __noinline__, which headers of GCC 16 would not survive
#include <cstddef>

#include <core/text_of.hpp>

#if defined(__HIP_PLATFORM_AMD__)
#include <hip/hip_runtime_api.h>
#define SHARDMARK_GPU(name) hip##name
#else
#include <cuda_runtime_api.h>
#define SHARDMARK_GPU(name) cuda##name
#endif

namespace shardmark::device {

using Status = SHARDMARK_GPU(Error_t);
using Stream = SHARDMARK_GPU(Stream_t);
using Event = SHARDMARK_GPU(Event_t);

inline constexpr Status success = SHARDMARK_GPU(Success);

/// The environment variable that hides devices from a process.
#if defined(__HIP_PLATFORM_AMD__)
inline constexpr const char* visible_devices = "HIP_VISIBLE_DEVICES";
#else
inline constexpr const char* visible_devices = "CUDA_VISIBLE_DEVICES";
#endif

/// `bytes` of the host's memory that the device copies from and to without a detour.
inline Status allocate_pinned(void** data, std::size_t bytes) {
#if defined(__HIP_PLATFORM_AMD__)
  return hipHostMalloc(data, bytes, hipHostMallocDefault);
#else
  return cudaMallocHost(data, bytes);
#endif
}
inline Status free_pinned(void* data) {
#if defined(__HIP_PLATFORM_AMD__)
  return hipHostFree(data);
#else
  return cudaFreeHost(data);
#endif
}

}  // namespace shardmark::device
