// SPDX-License-Identifier: Apache-2.0
// Trains: start-up, warm-up and timed steps, with the checkpoints and traces between and in them,
// and records what this rank sees.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <comm/decorators/counting.hpp>
#include <miniapp/checkpoint/checkpoints.hpp>
#include <miniapp/energy/phase_meter.hpp>
#include <miniapp/execute/step_trace.hpp>
#include <miniapp/measure/call_sample.hpp>
#include <miniapp/measure/run_record.hpp>
#include <miniapp/prove/step_prover.hpp>
#include <miniapp/ranks/stop_signals.hpp>
#include <miniapp/run/progress.hpp>
#include <miniapp/run/replay.hpp>
#include <miniapp/run/run_session.hpp>

namespace shardmark {

/// Runs all steps of one run.
class Trainer {
 public:
  /// All must outlive it; the session is open. `prints`: progress goes to standard output.
  Trainer(const RunPlan& run, RunSession& session, Checkpoints& checkpoints, const World& world,
          bool prints);

  /// Collective. Runs the start-up, goes on from a checkpoint if the deck says so, and runs all
  /// steps, or as many as are done when a signal or the time limit stops the run. Throws
  /// AgreedError; CommError, MemoryError and IoError of this rank alone.
  void train();
  /// Collective. Finishes the checkpoint that is still being written, and runs the storage
  /// benchmark. Throws AgreedError.
  void finish();

  /// What this rank recorded, complete after finish().
  const RunRecord& record() const { return record_; }
  const StepProver& prover() const { return prover_; }
  StepReplay& replay() { return replay_; }
  /// The collectives before the timed steps, where DeepSpeed's log wants them.
  const std::vector<CollectiveRecord>& untimed_calls() const { return untimed_calls_; }
  /// On rank 0, the warm-up step that the report draws.
  const StepTrace& drawn_step() const { return drawn_; }
  /// The energy counters of this node, of the timed steps; null on the other ranks of the node.
  const EnergyMeters* meters() const { return meters_ ? &*meters_ : nullptr; }
  /// How their joules were divided among phases; null as meters().
  const PhaseMeter* phases() const { return phases_ ? &*phases_ : nullptr; }
  /// The timed steps that the deck's `trace` asks for.
  const std::vector<StepTrace>& traced_steps() const { return traced_; }

 private:
  std::int64_t steps(std::int64_t first, std::int64_t count, Progress& progress);
  StopCause own_cause() const;
  StopCause agreed_cause(std::int64_t next_step);
  void step(std::int64_t step, Progress& progress);
  void step_with_trace(std::int64_t step, std::int64_t timed, Progress& progress);
  void plain_step(std::int64_t step);
  void look_at_cores();
  bool proves(std::int64_t step) const;
  StepTrace traced_step(std::int64_t step);
  void step_to_replay(std::int64_t step, Progress& progress);
  void checkpoint(std::int64_t steps_done);
  std::int64_t timed_steps(bool look_again, Progress& progress);
  Pace pace_of_warmup() const;
  bool announce(const Pace& pace, Progress& progress) const;
  void measure_libraries();
  void record_resident();
  void open_meters();
  void enter_phase(std::optional<EnergyPhase> phase);
  template<class Body>
  void untimed(const char* what, Body body);
  template<class Body>
  void with_files_mapped(const char* what, Body body);

  const RunPlan& run_;
  RunSession& session_;
  Checkpoints& checkpoints_;
  Peers& peers_;
  bool prints_;
  StepProver prover_;
  StepReplay replay_;
  CallSample sample_;
  StopAgreement stop_;
  RunRecord record_;
  std::optional<EnergyMeters> meters_;  // on one rank of each node
  std::optional<PhaseMeter> phases_;    // of these meters
  std::int64_t untimed_ns_ = 0;         // between timed steps, in checkpoints and for the replay
  std::vector<CollectiveRecord> untimed_calls_;
  StepTrace drawn_;
  std::vector<StepTrace> traced_;
};

}  // namespace shardmark
