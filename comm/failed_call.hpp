// SPDX-License-Identifier: Apache-2.0
// The error of a failed call to a library, in the same form for MPI, NCCL and CUDA.
#pragma once

#include <string_view>

namespace shardmark {

/// Throws CommError with "file:line: function: reason". `call` is the source text of the call, of
/// which the function name is used; of `file` the name without folders is used.
[[noreturn]] void throw_failed_call(std::string_view call, std::string_view file, int line,
                                    std::string_view reason);

}  // namespace shardmark
