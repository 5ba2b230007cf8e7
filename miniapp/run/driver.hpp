// SPDX-License-Identifier: Apache-2.0
// A run, phase by phase. A reader starts at `run_deck`: each of its lines is one phase.
#pragma once

#include <core/error.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/run/launch.hpp>
#include <miniapp/run/run_arguments.hpp>

namespace shardmark {

/// A run that came to its end.
struct RunOutcome {
  ExitStatus status = ExitStatus::valid;
  Deck deck;  // as run: with the layers that model.fit chose
  Program program;
  Result result;  // this rank's; verdict and losses are the same on all ranks
};

/// Collective over `world`. Trains (or runs) what the deck says, prints the report on rank 0 and
/// writes the output folder. Throws AgreedError for errors that all ranks know; CommError,
/// MemoryError and others for errors that other ranks may not know: the caller then ends all
/// processes.
RunOutcome run_deck(const RunArguments& arguments, const World& world);

}  // namespace shardmark
