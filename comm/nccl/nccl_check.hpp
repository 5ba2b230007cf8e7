// SPDX-License-Identifier: Apache-2.0
// Checked calls: SHARDMARK_NCCL(call) and SHARDMARK_CUDA(call) throw CommError with the library's
// own description of the error.
#pragma once

#include <string_view>

#include <cuda_runtime_api.h>
#include <nccl.h>

namespace shardmark {

/// Throws CommError unless `code` is ncclSuccess or ncclInProgress; the latter is no error for
/// non-blocking communicators. `file` and `line` default to the caller's.
void check_nccl(ncclResult_t code, std::string_view call, std::string_view file = __builtin_FILE(),
                int line = __builtin_LINE());
/// Throws CommError unless `code` is cudaSuccess.
void check_cuda(cudaError_t code, std::string_view call, std::string_view file = __builtin_FILE(),
                int line = __builtin_LINE());

/// Prints the failure of `call` to stderr unless `code` is cudaSuccess. For destructors, which
/// cannot throw.
void report_cuda(cudaError_t code, const char* call);

}  // namespace shardmark

#define SHARDMARK_NCCL(call) ::shardmark::check_nccl((call), #call)
#define SHARDMARK_CUDA(call) ::shardmark::check_cuda((call), #call)
