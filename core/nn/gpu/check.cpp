// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <core/error.hpp>
#include <core/nn/gpu/check.hpp>

namespace shardmark::device {
namespace {

std::string at(std::string_view call, std::string_view file, int line, const std::string& what) {
  if (const auto slash = file.rfind('/'); slash != std::string_view::npos)
    file.remove_prefix(slash + 1);
  return std::string(file) + ":" + std::to_string(line) + ": " +
         std::string(call.substr(0, call.find('('))) + ": " + what;
}

}  // namespace

void check(device::Status code, std::string_view call, std::string_view file, int line) {
  if (code == device::success) return;
  const std::string what = at(call, file, line, SHARDMARK_GPU(GetErrorString)(code));
  if (code == SHARDMARK_GPU(ErrorMemoryAllocation)) throw MemoryError(what);
  throw CommError(what);
}

void check(blas::Status code, std::string_view call, std::string_view file, int line) {
  if (code == SHARDMARK_BLAS_COMMON(STATUS_SUCCESS)) return;
  const std::string what = at(call, file, line, blas::text_of(code));
  if (code == SHARDMARK_BLAS_COMMON(STATUS_ALLOC_FAILED)) throw MemoryError(what);
  throw CommError(what);
}

}  // namespace shardmark::device
