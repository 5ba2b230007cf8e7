// SPDX-License-Identifier: Apache-2.0
// Rule: the interval of a predicted step is as wide as what the machine file's figures are worth,
// and wider where repeated steps differ more.
#include <gtest/gtest.h>

#include <core/plan/price/step_interval.hpp>

namespace shardmark::test::step_interval_test {
namespace {

TEST(StepInterval, IsThatOfPublishedPointsOnAMachineThatNobodyMeasured) {
  Machine machine;
  machine.jitter.step_relative_sd = 0.01;
  const StepInterval i = step_interval(machine);
  EXPECT_GT(i.above, 0.10);
  EXPECT_LT(i.above, 0.13);
  EXPECT_EQ(i.below, i.above);
}

TEST(StepInterval, IsNarrowerOnAMachineThatWasMeasured) {
  Machine measured;
  measured.jitter.step_relative_sd = 0.01;
  measured.provenance.held_out_error = 0.03;
  const StepInterval i = step_interval(measured);
  EXPECT_LT(i.above, 0.04);
  EXPECT_GT(i.above, 0.03);
}

TEST(StepInterval, FollowsTheQuantilesOfRepeatedSteps) {
  Machine machine;
  machine.provenance.held_out_error = 0;
  machine.jitter.step_quantiles = {0.98, 0.99, 1.0, 1.1, 1.3};
  const StepInterval i = step_interval(machine);
  EXPECT_NEAR(i.below, 0.018, 1e-12);
  EXPECT_NEAR(i.above, 0.26, 1e-12);
}

}  // namespace
}  // namespace shardmark::test::step_interval_test
