// SPDX-License-Identifier: Apache-2.0
// What exists before a deck is read: the ranks, and the means by which they agree.
#pragma once

#include <mpi.h>

#include <comm/decorators/watchdog.hpp>
#include <comm/mpi/node.hpp>
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

}  // namespace shardmark
