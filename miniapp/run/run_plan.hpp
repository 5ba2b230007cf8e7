// SPDX-License-Identifier: Apache-2.0
// A run before anything large is allocated: its deck, its plan, and the memory that it may use.
#pragma once

#include <optional>

#include <comm/mpi/node.hpp>
#include <core/clock.hpp>
#include <core/plan/build/fit_layers.hpp>
#include <core/plan/deck/deck.hpp>
#include <core/plan/plan.hpp>
#include <io/deck/deck_reader.hpp>
#include <miniapp/predict/prediction.hpp>
#include <miniapp/provenance/provenance.hpp>
#include <miniapp/ranks/faults.hpp>
#include <miniapp/rules/run_class.hpp>
#include <miniapp/run/budgets.hpp>
#include <miniapp/run/launch.hpp>
#include <miniapp/run/run_arguments.hpp>

namespace shardmark {

/// All that is decided before a run begins.
struct RunPlan {
  std::int64_t start_ns = monotonic_ns();  // before the deck is read
  std::string started = utc_now();         // the same by the calendar
  InjectedFault fault;
  LoadedDeck loaded;
  Batch batch;
  Profile profile;
  std::optional<Fit> fit;  // how many layers, where the deck gives `model.fit`
  Program program;         // of this rank
  RunBudgets budgets;
  std::string machine_file;             // empty: nothing is predicted
  std::vector<Prediction> predictions;  // on rank 0, see predict_run()
  ClassFacts class_facts;               // on rank 0, see find_class()
  RunClass start_class;                 // on rank 0, before the first step
};

/// Collective. Reads deck, batch and environment, and proves that all ranks have the same deck,
/// whose comm.timeout_s holds from there on. Throws AgreedError.
RunPlan read_run(const RunArguments& arguments, const World& world);

/// Collective. Builds the program, which is legal, with as many layers as fit if the deck gives
/// `model.fit`. Throws AgreedError.
void plan_run(RunPlan& run, const World& world);

/// Collective. Finds the budgets, and refuses a program that does not fit in them. Throws
/// AgreedError.
void require_memory(RunPlan& run, const World& world);

/// Collective. On rank 0 finds the class that the run can have. `resumed_from`: the checkpoint that
/// it goes on from; may be empty. Throws AgreedError.
void find_class(RunPlan& run, const std::string& resumed_from, const World& world);

/// Ranks per node, back-end and limits of scratch on this machine. Local. Throws DeckError if the
/// deck or the environment asks for something that this build or this layout of ranks lacks.
Profile run_profile(const Deck& deck, const Node& node, int world);

}  // namespace shardmark
