// SPDX-License-Identifier: Apache-2.0
// Brings MPI and Kokkos up around what runs on them, and turns what goes wrong into one message and
// one exit status for all ranks.
#pragma once

#include <functional>

#include <core/error.hpp>
#include <miniapp/run/world.hpp>

namespace shardmark {

/// Collective over MPI_COMM_WORLD; once a process. Errors are printed here. What `body` throws as
/// AgreedError ends it on all ranks; anything else may be one rank's own, and ends all processes.
ExitStatus launch(const std::function<ExitStatus(const World&)>& body);

}  // namespace shardmark
