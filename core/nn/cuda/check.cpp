// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <core/error.hpp>
#include <core/nn/cuda/check.hpp>

namespace shardmark::device {
namespace {

std::string at(std::string_view call, std::string_view file, int line, const char* what) {
  if (const auto slash = file.rfind('/'); slash != std::string_view::npos)
    file.remove_prefix(slash + 1);
  return std::string(file) + ":" + std::to_string(line) + ": " +
         std::string(call.substr(0, call.find('('))) + ": " + what;
}

}  // namespace

void check(cudaError_t code, std::string_view call, std::string_view file, int line) {
  if (code == cudaSuccess) return;
  const std::string what = at(call, file, line, cudaGetErrorString(code));
  if (code == cudaErrorMemoryAllocation) throw MemoryError(what);
  throw CommError(what);
}

void check(cublasStatus_t code, std::string_view call, std::string_view file, int line) {
  if (code == CUBLAS_STATUS_SUCCESS) return;
  const std::string what = at(call, file, line, cublasLtGetStatusString(code));
  if (code == CUBLAS_STATUS_ALLOC_FAILED) throw MemoryError(what);
  throw CommError(what);
}

}  // namespace shardmark::device
