// SPDX-License-Identifier: Apache-2.0
// Checks of calls of the CUDA runtime and of cuBLASLt, made where the call is made.
#pragma once

#include <string_view>

#include <cublasLt.h>
#include <cuda_runtime_api.h>

namespace shardmark::device {

/// Throws unless `code` is success: MemoryError if the device has no memory left, else CommError,
/// because a device that fails is treated like a peer that is lost. `file` and `line` are those of
/// the caller.
void check(cudaError_t code, std::string_view call, std::string_view file = __builtin_FILE(),
           int line = __builtin_LINE());
void check(cublasStatus_t code, std::string_view call, std::string_view file = __builtin_FILE(),
           int line = __builtin_LINE());

}  // namespace shardmark::device

#define SHARDMARK_DEVICE(call) ::shardmark::device::check((call), #call)
