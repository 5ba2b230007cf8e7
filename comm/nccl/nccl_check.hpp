// SPDX-License-Identifier: Apache-2.0
// Checked calls: SHARDMARK_NCCL(call), and SHARDMARK_RUNTIME(name, arguments…) for the call of that
// name of the GPU's run time, throw CommError with the library's own description of the error.
#pragma once

#include <string_view>

#include <comm/nccl/nccl_library.hpp>

namespace shardmark {

/// Throws CommError unless `code` is ncclSuccess or ncclInProgress; the latter is no error for
/// non-blocking communicators. `file` and `line` default to the caller's.
void check_nccl(ncclResult_t code, std::string_view call, std::string_view file = __builtin_FILE(),
                int line = __builtin_LINE());
/// Throws CommError unless `code` is device::success.
void check_runtime(device::Status code, std::string_view call,
                   std::string_view file = __builtin_FILE(), int line = __builtin_LINE());

/// Prints the failure of `call` to stderr unless `code` is device::success. For destructors, which
/// cannot throw.
void report_runtime(device::Status code, const char* call);

}  // namespace shardmark

#define SHARDMARK_NCCL(call) ::shardmark::check_nccl((call), #call)
#define SHARDMARK_RUNTIME(name, ...)                           \
  ::shardmark::check_runtime(SHARDMARK_GPU(name)(__VA_ARGS__), \
                             SHARDMARK_TEXT_OF(SHARDMARK_GPU(name)))
/// Prints a failure, for destructors.
#define SHARDMARK_REPORT(name, ...)                             \
  ::shardmark::report_runtime(SHARDMARK_GPU(name)(__VA_ARGS__), \
                              SHARDMARK_TEXT_OF(SHARDMARK_GPU(name)))
