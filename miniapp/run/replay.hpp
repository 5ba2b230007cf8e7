// SPDX-License-Identifier: Apache-2.0
// One timed step is made again. The states before the step are kept in host memory; after the run,
// a session with the same plan under `ordered` reductions starts from them, and what it computes is
// compared with what the run computed. So a wrong sum, a wrong product or a wrong update that comes
// in timed steps only is seen, whatever caused it, as far as it exceeds rounding
// (replay_result.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <io/checkpoint/manifest.hpp>
#include <io/checkpoint/state_reader.hpp>
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
  /// Keeps what the drawn step gave, immediately after it. Likewise.
  void after_step(double loss, bool updated);

  /// Bytes of host memory that this rank holds beside the ledger's.
  std::int64_t kept_bytes() const { return kept_bytes_; }

  /// Collective. Makes the drawn step again and compares. Ends the session of the run, whose memory
  /// the new one needs. `stopped`: the run did not do all its steps. Throws what a run throws.
  ReplayResult again(bool stopped);

 private:
  struct Kept {
    WantedElements where;  // its address is that of draw(), where files are mapped elsewhere
    std::unique_ptr<std::byte[]> bytes;
  };

  std::string plan();
  void restore(const Executor& executor) const;

  const RunPlan& run_;
  RunSession& session_;
  const World& world_;
  Deck deck_;        // of the run, under `ordered`
  Program program_;  // the same
  std::int64_t kept_bytes_ = 0;
  std::vector<Kept> kept_;
  TrainingPosition position_;
  StepOutcome before_, ran_;
  bool done_ = false;  // the drawn step
  ReplayResult result_;
};

}  // namespace shardmark
