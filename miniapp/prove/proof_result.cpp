// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <miniapp/prove/proof_result.hpp>

namespace shardmark {

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
