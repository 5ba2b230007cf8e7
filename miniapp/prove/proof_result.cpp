// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/random.hpp>
#include <miniapp/prove/proof_result.hpp>

namespace shardmark {

// The last run of steps may be shorter than the others; one of its steps is still drawn.
bool is_proved(const ProofResult& proof, std::int64_t timed) {
  if (timed < 0 || timed >= proof.timed_steps || proof.period < 1) return false;
  const std::int64_t window = timed / proof.period, first = window * proof.period;
  const std::int64_t length = std::min(proof.period, proof.timed_steps - first);
  const std::uint64_t random = splitmix64(proof.seed + static_cast<std::uint64_t>(window));
  return timed - first == static_cast<std::int64_t>(random % static_cast<std::uint64_t>(length));
}

std::string describe(const ProofResult& proof) {
  const std::string chance =
      proof.period > 1
          ? fmt::format("; a fault in a single step is seen with probability 1/{}", proof.period)
          : "";
  return fmt::format(
      "{} collectives of {} of {} timed steps delivered what was sent{}; {:.2f} % of the time",
      proof.collectives, proof.proved_steps, proof.timed_steps, chance, 100 * proof.cost);
}

}  // namespace shardmark
