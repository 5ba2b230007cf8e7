// SPDX-License-Identifier: Apache-2.0
// A run, phase by phase. `run_deck` is the way in for a reader: each line of it is one phase.
#pragma once

#include <mpi.h>

#include <comm/decorators/watchdog.hpp>
#include <comm/mpi/node.hpp>
#include <core/error.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// What is there before a deck is read.
struct World {
  MPI_Comm comm;
  const Node& node;
  Watchdog& watch;
  Peers& peers;
};

/// A run that came to its end.
struct RunOutcome {
  ExitStatus status = ExitStatus::valid;
  Deck deck;  // as run: with the layers that model.fit chose
  Program program;
  Result result;  // this rank's; verdict and losses are the same on all
};

/// Collective over `world`. Trains (or runs) what the deck says, prints the report on rank 0 and
/// writes the output folder. Throws AgreedError for what all ranks know of; CommError, MemoryError
/// and others for what they may not: the caller then ends all processes.
RunOutcome run_deck(const RunArguments& arguments, const World& world);

}  // namespace shardmark
