// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <comm/failed_call.hpp>
#include <comm/nccl/nccl_check.hpp>

namespace shardmark {
void check_nccl(ncclResult_t code, std::string_view call, std::string_view file, int line) {
  if (code != ncclSuccess && code != ncclInProgress)
    throw_failed_call(call, file, line, ncclGetErrorString(code));
}

void check_cuda(cudaError_t code, std::string_view call, std::string_view file, int line) {
  if (code != cudaSuccess) throw_failed_call(call, file, line, cudaGetErrorString(code));
}

void report_cuda(cudaError_t code, const char* call) {
  if (code != cudaSuccess) std::fprintf(stderr, "%s: %s\n", call, cudaGetErrorString(code));
}

}  // namespace shardmark
