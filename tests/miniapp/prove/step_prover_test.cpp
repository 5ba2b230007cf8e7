// SPDX-License-Identifier: Apache-2.0
// Which timed steps are proved, where a proof costs nothing.
#include <gtest/gtest.h>

#include <miniapp/prove/step_prover.hpp>
#include <tests/support/programs.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::step_prover_test {
namespace {

std::int64_t drawn_of(std::int64_t steps, std::int64_t least_period) {
  const std::unique_ptr<Communicator> lane = make_world(make_options());
  Peers peers{*lane};
  Proof proof{ProofOptions{}};
  DataWitness data;
  StepProver prover(&proof, data, peers);
  prover.draw(steps, least_period);
  std::int64_t drawn = 0;
  for (std::int64_t s = 0; s < steps; ++s) drawn += prover.drawn(s) ? 1 : 0;
  return drawn;
}

TEST(StepProver, ProvesOneStepInEachRunOfTheLeastPeriod) {
  EXPECT_EQ(drawn_of(6, 1), 6);
  EXPECT_EQ(drawn_of(6, 2), 3);
  EXPECT_EQ(drawn_of(7, 2), 4) << "the last run has one step";
  EXPECT_EQ(drawn_of(1, 2), 1) << "there is no other one";
}

}  // namespace
}  // namespace shardmark::test::step_prover_test
