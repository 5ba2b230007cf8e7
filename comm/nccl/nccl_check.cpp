// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <comm/nccl/nccl_check.hpp>
#include <core/error.hpp>

namespace shardmark {
namespace {

[[noreturn]] void fail(std::string_view call, std::string_view file, int line, const char* what) {
  if (const auto slash = file.rfind('/'); slash != file.npos) file.remove_prefix(slash + 1);
  throw CommError(fmt::format("{}:{}: {}: {}", file, line, call.substr(0, call.find('(')), what));
}

}  // namespace

void check_nccl(ncclResult_t code, std::string_view call, std::string_view file, int line) {
  if (code != ncclSuccess && code != ncclInProgress)
    fail(call, file, line, ncclGetErrorString(code));
}

void check_cuda(cudaError_t code, std::string_view call, std::string_view file, int line) {
  if (code != cudaSuccess) fail(call, file, line, cudaGetErrorString(code));
}

}  // namespace shardmark
