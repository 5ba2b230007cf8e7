// SPDX-License-Identifier: Apache-2.0
// Checked MPI calls: SHARDMARK_MPI(call) throws CommError with MPI's own description of the error.
// Failed calls to MPI, NCCL and CUDA are reported in the same form.
#pragma once

#include <string_view>

namespace shardmark {

/// Throws CommError with "file:line: function: reason". `call` is the source text of the call, of
/// which the function name is used; of `file` the name without folders is used.
[[noreturn]] void throw_failed_call(std::string_view call, std::string_view file, int line,
                                    std::string_view reason);

/// Throws CommError unless `code` is MPI_SUCCESS. `call` is the source text of the call; `file` and
/// `line` default to the caller's (compiler built-ins, since clang 14 has no std::source_location).
void check_mpi(int code, std::string_view call, std::string_view file = __builtin_FILE(),
               int line = __builtin_LINE());

/// Prints the failure of `call` to stderr unless `code` is MPI_SUCCESS. For destructors, which
/// cannot throw.
void report_mpi(int code, const char* call);

}  // namespace shardmark

#define SHARDMARK_MPI(call) ::shardmark::check_mpi((call), #call)
