// SPDX-License-Identifier: Apache-2.0
// What the proof of the collectives covered, for the report and the verdict.
#pragma once

#include <cstdint>
#include <string>

namespace shardmark {

/// How many timed steps and collectives were proved, and what that cost.
struct ProofResult {
  std::int64_t timed_steps = 0, proved_steps = 0;
  std::int64_t period = 1;       // one step in each run of so many timed steps is proved
  std::int64_t collectives = 0;  // that were proved in timed steps, on this rank
  double cost = 0;               // of the timed span, the part that the proof took on this rank
  std::uint64_t seed = 0;        // from which the steps and the keys were drawn
};

/// Whether timed step number `timed` (from 0) is proved: one step in each run of `period` steps is,
/// drawn by the seed. Pure.
bool is_proved(const ProofResult& proof, std::int64_t timed);

/// "every collective of 20 of 20 timed steps delivered what was sent (…)".
std::string describe(const ProofResult& proof);

}  // namespace shardmark
