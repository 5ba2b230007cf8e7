// SPDX-License-Identifier: Apache-2.0
// A program that is ready to run on this rank. Everything that trains opens a session: the driver,
// its self-check, the tests and the benchmarks. Their common wiring is here and nowhere else:
//
//     Lanes lanes(make_run_lane(…), program);   // collective
//     Session session(deck, program, lanes, context);
//     session.steps().init();                   // start-up, then one step after another
//     session.steps().step(0);
//     session.executor().slot(…);               // what the step has left in the buffers
#pragma once

#include <memory>

#include <comm/idle.hpp>
#include <core/memory/ledger.hpp>
#include <core/nn/kernels/context.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/execute/executor.hpp>
#include <miniapp/execute/step_runner.hpp>
#include <miniapp/models/event_model.hpp>
#include <miniapp/ranks/faults.hpp>
#include <miniapp/ranks/lanes.hpp>

namespace shardmark {

/// What a session may be given beside deck, program and communicators.
struct SessionOptions {
  std::unique_ptr<Model> model = {};  // computes the events; null: the model of the deck
  Fault fault = Fault::none;          // made on purpose, by the executor
  Idle idle = {};                     // how a rank pauses while it waits
  bool ledger = false;                // counts allocations; only one session at a time may
};

/// One program with its model, its memory and its executor.
class Session {
 public:
  /// Local. Makes the model and allocates the memory of the slots (all of it in `pooled` mode), but
  /// runs nothing. The arguments must outlive the session. Until its end, kernels that are given
  /// `context` let the session's collectives progress. Throws DeckError, MemoryError, IoError.
  Session(const Deck& deck, const Program& program, const Lanes& lanes, Context& context,
          SessionOptions options = {});
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Runs single segments, and gives access to slots, times and traces.
  Executor& executor() { return executor_; }
  const Executor& executor() const { return executor_; }
  /// Runs the start-up and whole steps. Collective over the program's groups.
  StepRunner& steps() { return steps_; }
  const StepRunner& steps() const { return steps_; }
  const Model& model() const { return *model_; }
  /// What was allocated by tier; files count as the tier nvme. Needs SessionOptions::ledger.
  LedgerSnapshot memory() const;

 private:
  Context& context_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<Ledger> ledger_;  // before the executor, whose allocations it counts
  Executor executor_;
  StepRunner steps_;
};

}  // namespace shardmark
