// SPDX-License-Identifier: Apache-2.0
// Each MPI call is checked where it is made: SHARDMARK_MPI(call) throws CommError with MPI's own words.
#pragma once

#include <source_location>
#include <string_view>

namespace shardmark {

/// Throws CommError unless `code` is MPI_SUCCESS. `call` is the source text of the call.
void check_mpi(int code, std::string_view call,
               std::source_location where = std::source_location::current());

}  // namespace shardmark

#define SHARDMARK_MPI(call) ::shardmark::check_mpi((call), #call)
