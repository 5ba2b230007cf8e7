// SPDX-License-Identifier: Apache-2.0
// Chooses the steps whose collectives (comm/proof) and training data (io/data/witness) are proved.
// One warm-up step is proved to learn what the proof costs. If that is at most 2 % of a step, every
// timed step is proved; otherwise one step of each run of `period` timed steps, drawn from a seed
// that is made after the warm-up. A lasting fault is then seen for certain, and a fault in one step
// with probability 1 / period. A run that is compared with a prediction asks for a period of 2 or
// more, so that it has steps whose time is that of the step alone.
// Proves the updates that Adam or AdamW made in one step from the parameters before it and the
// states after it: nothing but these decides what an update makes of a parameter, so the moments
// before the step are not needed.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <comm/proof/proof.hpp>
#include <core/nn/optimizer/updates.hpp>
#include <io/data/witness.hpp>
#include <miniapp/prove/replay_result.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Begins and ends the proof of the steps that it draws, and keeps account of its cost.
class StepProver {
 public:
  /// All must outlive it. Where nothing is communicated (one rank), `proof` may be null, and
  /// nothing is proved. `sharing` neighbours read the same data, since they divide layers or
  /// samples.
  StepProver(Proof* proof, DataWitness& data, Peers& peers, int sharing = 1)
      : proof_(proof), data_(data), peers_(peers), sharing_(sharing) {}

  /// Collective. The collectives from here to `end` are those of `step` and are proved.
  void begin(std::int64_t step);
  /// Collective; nothing may be in flight.
  void end();

  /// Collective, once, after the warm-up: draws which of `steps` timed steps are proved. One is
  /// drawn from each run of `least_period` steps or more; `least_period` must be at least 1.
  void draw(std::int64_t steps, std::int64_t least_period);
  /// Whether timed step number `timed`, counted from 0, was drawn. The same on all ranks.
  bool drawn(std::int64_t timed) const;

  /// What was proved since `draw`, in timed steps that took `timed_s` seconds together.
  ProofResult result(double timed_s) const;
  /// Collective. The first failure in the lowest step, with its rank; empty if there is none.
  std::string first_failure() const;
  /// Collective. Describes the first step in which a rank read data that differs from what the rank
  /// before it predicts for the same place, or from what the ranks read that divide layers with it.
  /// Returns an empty text if there is no such step.
  std::string data_difference() const;

 private:
  struct Read {
    std::int64_t step;
    WitnessedData data;
  };

  Proof* proof_;
  DataWitness& data_;
  Peers& peers_;
  const int sharing_;
  std::int64_t begin_ns_ = 0;  // of the step that is being proved
  std::int64_t spent_before_ns_ = 0;
  std::int64_t step_ = 0;        // the same
  std::vector<Read> data_read_;  // by proved step
  double cost_ = 0;              // of the last proved step, relative to the rest of it
  std::int64_t collectives_before_ = 0;
  ProofResult result_;
  double spent_s_ = 0;
};

/// Elements of one rank that one step updated.
struct UpdatedRange {
  std::int64_t first_elem = 0, elems = 0;
  const float* before = nullptr;  // the parameters before the step, in host memory
  // After the step, where kernels reach them:
  const float *master = nullptr, *momentum = nullptr, *variance = nullptr;
};

/// Makes each update again, a piece at a time, with 3 MiB of scratch. `step` is empty for a step
/// that was skipped, which changes nothing. Local; waits for the result.
UpdateSketches sketch_updates(const Context& context, std::span<const UpdatedRange> ranges,
                              const std::optional<AdamWStep>& step);

}  // namespace shardmark
