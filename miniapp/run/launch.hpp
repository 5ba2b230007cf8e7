// SPDX-License-Identifier: Apache-2.0
// Initializes MPI and Kokkos for a command, and turns an error into one message and one exit status
// for all ranks.
#pragma once

#include <functional>

#include <mpi.h>

#include <comm/decorators/watchdog.hpp>
#include <comm/mpi/node.hpp>
#include <core/error.hpp>
#include <miniapp/ranks/deadline_guard.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// All ranks of the program, as one of them sees them.
struct World {
  MPI_Comm comm;
  const Node& node;
  Watchdog& watch;
  Peers& peers;
  DeadlineGuard& guard;
};

/// Collective over MPI_COMM_WORLD; once per process. Errors are printed here. If `body` throws
/// AgreedError, it ends on all ranks; any other exception may be known to one rank only, so it ends
/// all processes.
ExitStatus launch(const std::function<ExitStatus(const World&)>& body);

/// Makes the heap keep freed memory for the rest of the process, since a step acquires and releases
/// the same sizes again and again, and a block that comes from the system costs a page fault per
/// page. To be called before the first large allocation.
void keep_freed_memory();

/// Returns the memory that the heap kept to the system. To be called between runs in one process,
/// since it would count in the budgets and the resident memory of the next run.
void give_back_freed_memory();

}  // namespace shardmark
