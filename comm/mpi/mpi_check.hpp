// SPDX-License-Identifier: Apache-2.0
// Each MPI call is checked where it is made: SHARDMARK_MPI(call) throws CommError with MPI's own
// words.
#pragma once

#include <string_view>

namespace shardmark {

/// Throws CommError unless `code` is MPI_SUCCESS. `call` is the source text of the call. The place
/// is the caller's (built-ins of g++ and clang; clang 14 has no std::source_location).
void check_mpi(int code, std::string_view call, std::string_view file = __builtin_FILE(),
               int line = __builtin_LINE());

}  // namespace shardmark

#define SHARDMARK_MPI(call) ::shardmark::check_mpi((call), #call)
