// SPDX-License-Identifier: Apache-2.0
// Initializes MPI and Kokkos for a command, and turns an error into one message and one exit status
// for all ranks.
#pragma once

#include <functional>

#include <core/error.hpp>
#include <miniapp/run/world.hpp>

namespace shardmark {

/// Collective over MPI_COMM_WORLD; once per process. Errors are printed here. If `body` throws
/// AgreedError, it ends on all ranks; any other exception may be known to one rank only, so it ends
/// all processes.
ExitStatus launch(const std::function<ExitStatus(const World&)>& body);

}  // namespace shardmark
