// SPDX-License-Identifier: Apache-2.0
// One timed step is made again. What it begins with is kept in host memory; after the run, a
// session with the same plan under `ordered` reductions starts from that, and what it computes is
// compared with what the run computed. So a wrong sum, a wrong product or a wrong update that comes
// in timed steps only is seen, whatever caused it, as far as it exceeds rounding
// (replay_result.hpp).
//
// The copy costs memory during the run, so it is as small as the proof allows (kept_states.hpp).
// Gradients follow from the parameters alone. What the step did with them falls in two for Adam:
//   * a moment after the step is linear in what the gradient adds, so sketches of the moments
//     before and after the step, and a replay that begins with moments of zero, prove both;
//   * parameters after the step follow from those before it and the moments after it, so the update
//     is proved bit for bit right after the step, while the moments are still there
//     (step_prover.hpp).
// Moments are kept where this does not hold: under `ordered` reductions, which promise equal bits
// of everything; for Lion, SGD, Adagrad and Muon, whose updates take the gradient itself; where
// states have 16 bits, of which no sketches are made; and beside frozen parameters, where moments
// are few.
#pragma once

#include <cstdint>
#include <string>

#include <io/checkpoint/manifest.hpp>
#include <miniapp/checkpoint/kept_states.hpp>
#include <miniapp/prove/replay_result.hpp>
#include <miniapp/run/run_plan.hpp>
#include <miniapp/run/run_session.hpp>

namespace shardmark {

/// Draws a timed step, keeps what it began with and what it gave, and makes it again.
class StepReplay {
 public:
  /// All must outlive it. Before draw() nothing is drawn.
  StepReplay(const RunPlan& run, RunSession& session, const World& world)
      : run_(run), session_(session), world_(world) {}

  /// Collective, once, after the warm-up: draws one of `steps` steps from `first` on, if the ranks
  /// have the memory to keep their states and to make a step under `ordered`.
  void draw(std::int64_t first, std::int64_t steps);
  bool drawn(std::int64_t step) const { return result_.step >= 0 && step == result_.step; }

  /// Keeps the states, immediately before the drawn step. Local; not a part of the timed span.
  void before_step();
  /// Keeps what the drawn step gave, and proves its update where moments were not kept, immediately
  /// after it. Collective; not a part of the timed span either.
  void after_step(double loss, double norm, bool updated);

  /// Bytes of host memory that this rank holds beside the ledger's; 0 before the drawn step.
  std::int64_t kept_bytes() const { return kept_.bytes(); }

  /// Collective. Makes the drawn step again and compares. Ends the session of the run, whose memory
  /// the new one needs. `stopped`: the run did not do all its steps. Throws what a run throws.
  ReplayResult again(bool stopped);

 private:
  std::string plan();
  StepOutcome outcome(const Context& context, const Program& program,
                      const Executor& executor) const;
  std::string prove_update(bool updated) const;

  const RunPlan& run_;
  RunSession& session_;
  const World& world_;
  Deck deck_;        // of the run, under `ordered`
  Program program_;  // the same
  bool with_moments_ = true;
  KeptStates kept_;
  TrainingPosition position_;
  StepOutcome before_, ran_;
  std::string wrong_update_;  // by prove_update
  bool done_ = false;         // the drawn step
  ReplayResult result_;
};

}  // namespace shardmark
