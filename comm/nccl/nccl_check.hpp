// SPDX-License-Identifier: Apache-2.0
// Each NCCL and CUDA call is checked where it is made: SHARDMARK_NCCL(call) and
// SHARDMARK_CUDA(call) throw CommError with the library's own words.
#pragma once

#include <string_view>

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace shardmark {

/// Throws CommError unless `code` is ncclSuccess, or ncclInProgress, which is no error where calls
/// do not block. The place is the caller's.
void check_nccl(ncclResult_t code, std::string_view call, std::string_view file = __builtin_FILE(),
                int line = __builtin_LINE());
/// Throws CommError unless `code` is cudaSuccess.
void check_cuda(cudaError_t code, std::string_view call, std::string_view file = __builtin_FILE(),
                int line = __builtin_LINE());

}  // namespace shardmark

#define SHARDMARK_NCCL(call) ::shardmark::check_nccl((call), #call)
#define SHARDMARK_CUDA(call) ::shardmark::check_cuda((call), #call)
