// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <comm/mpi/mpi_check.hpp>
#include <comm/nccl/nccl_check.hpp>

namespace shardmark {
void check_nccl(ncclResult_t code, std::string_view call, std::string_view file, int line) {
  if (code != ncclSuccess && !in_progress(code))
    throw_failed_call(call, file, line, ncclGetErrorString(code));
}

void check_runtime(device::Status code, std::string_view call, std::string_view file, int line) {
  if (code != device::success)
    throw_failed_call(call, file, line, SHARDMARK_GPU(GetErrorString)(code));
}

void report_runtime(device::Status code, const char* call) {
  if (code != device::success)
    std::fprintf(stderr, "%s: %s\n", call, SHARDMARK_GPU(GetErrorString)(code));
}

}  // namespace shardmark
