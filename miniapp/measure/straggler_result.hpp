// SPDX-License-Identifier: Apache-2.0
// What slow ranks cost the others, as plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardmark {

/// The timed steps of one rank, in seconds. A rank's own time in a step is what it computes and
/// copies, without waiting for collectives.
struct RankSteps {
  double p50_s = 0, p99_s = 0, worst_s = 0;  // of its own time
  double waiting_caused_s = 0;  // per step: how long the other ranks together waited for this one
};

/// What the section `perturb` did in the timed steps.
struct PerturbResult {
  std::vector<int> ranks;             // that were made slower
  std::int64_t slow_steps = 0;        // in which one was
  double injected_s = 0, lost_s = 0;  // in these: by the slowest rank; by the whole run
  /// Time that the run lost over time that the slowest rank lost. Empty if there were no other
  /// steps to compare with.
  std::optional<double> amplification() const {
    return comparable && injected_s > 0 ? std::optional(lost_s / injected_s) : std::nullopt;
  }
  bool comparable = false;
  double written_bytes = 0;  // to memory beside the work, by all these ranks
  double written_s = 0;      // in this time of each of them
};

/// What the section `congestion` did in the timed steps.
struct CongestionResult {
  std::vector<int> ranks;   // with background traffic
  std::string description;  // "ring, messages of 1 MiB"
  std::int64_t message_bytes = 0;
  std::size_t flows = 0;
  double moved_bytes = 0, seconds = 0;
};

/// All ranks, and what was done to them.
struct StragglerResult {
  std::vector<RankSteps> ranks;          // by rank
  double worst_step_s = 0;               // of the timed steps
  std::optional<PerturbResult> perturb;  // where the deck asks for it
  std::optional<CongestionResult> congestion;
};

}  // namespace shardmark
