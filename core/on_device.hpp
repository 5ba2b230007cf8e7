// SPDX-License-Identifier: Apache-2.0
// Whether the compiler is now making code for a GPU, whatever its vendor. nvcc and clang compile a
// source once for the host and once for the device.
#pragma once

#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#define SHARDMARK_ON_DEVICE
#endif

/// For functions that only the host calls, from functions that clang compiles for both. nvcc needs
/// no mark for them.
#if defined(__HIPCC__)
#define SHARDMARK_HOST_DEVICE __attribute__((host)) __attribute__((device))
#else
#define SHARDMARK_HOST_DEVICE
#endif
