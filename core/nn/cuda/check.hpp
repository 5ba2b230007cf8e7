// SPDX-License-Identifier: Apache-2.0
// Each call of the CUDA runtime and of cuBLASLt is checked where it is made.
#pragma once

#include <string_view>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace shardmark::device {

/// Throws MemoryError where the device has no memory left, else CommError, unless `code` is
/// success: the device is a peer that is lost. The place is the caller's.
void check(cudaError_t code, std::string_view call, std::string_view file = __builtin_FILE(),
           int line = __builtin_LINE());
void check(cublasStatus_t code, std::string_view call, std::string_view file = __builtin_FILE(),
           int line = __builtin_LINE());

}  // namespace shardmark::device

#define SHARDMARK_DEVICE(call) ::shardmark::device::check((call), #call)
