// SPDX-License-Identifier: Apache-2.0
// Rule: the interval of a predicted step is as wide as what the machine file's figures are worth,
// and wider where repeated steps differ more.
#include <cmath>

#include <gtest/gtest.h>

#include <core/plan/price/step_interval.hpp>

namespace shardmark::test::step_interval_test {
namespace {

TEST(StepInterval, IsThatOfPublishedPointsOnAMachineThatNobodyMeasured) {
  Machine machine;
  machine.jitter.step_relative_sd = 0.01;
  const StepInterval i = step_interval(machine);
  EXPECT_GT(i.above, 0.25);
  EXPECT_LT(i.above, 0.26);
  EXPECT_EQ(i.below, i.above);
  machine.provenance.crosswise_error_90 = 0.11;
  EXPECT_NEAR(step_interval(machine).above, std::hypot(0.11, 1.645 * 0.01), 1e-12);
}

TEST(StepInterval, GrowsWithWhatTheFiguresWereNotFittedOn) {
  Machine machine;
  machine.jitter.step_relative_sd = 1e-9;
  machine.provenance.crosswise_error_90 = 0.1;
  EXPECT_NEAR(step_interval(machine, 1).above, 0.1, 1e-6);
  EXPECT_NEAR(step_interval(machine, 2).above, 0.2, 1e-6);
  EXPECT_NEAR(step_interval(machine, 100).above, 0.3, 1e-6);
}

TEST(StepInterval, GrowsWithTheShareOfAHostThatNobodyMeasured) {
  Machine machine;
  machine.jitter.step_relative_sd = 1e-9;
  machine.provenance.crosswise_error_90 = 0.1;
  EXPECT_NEAR(step_interval(machine, 1, 0.8).above, 0.1, 1e-6);  // nothing is launched one by one
  machine.software.eager = true;
  EXPECT_NEAR(step_interval(machine, 1, 0.8).above, std::hypot(0.1, 0.8 * host_error_90), 1e-6);
  EXPECT_NEAR(step_interval(machine, 1, 0).above, 0.1, 1e-6);
  machine.provenance.held_out_error = 0.1;
  EXPECT_NEAR(step_interval(machine, 1, 0.8).above, 0.1, 1e-6);
}

TEST(BeyondFit, NamesNarrowerAndWiderModelsMoreRanksAndOtherTypes) {
  const FittedOn fitted{768, 8192, 64, {Dtype::bf16}};
  EXPECT_TRUE(beyond_fit(fitted, 768, 64, Dtype::bf16).empty());
  EXPECT_TRUE(beyond_fit(fitted, 8192, 1, Dtype::bf16).empty());
  EXPECT_TRUE(beyond_fit({}, 10, 100000, Dtype::fp32).empty());
  const auto said = [&](std::int64_t hidden, int ranks, Dtype type) {
    const std::vector<BeyondFit> found = beyond_fit(fitted, hidden, ranks, type);
    return found.size() == 1 ? found.front() : BeyondFit{"", 0};
  };
  EXPECT_EQ(said(384, 8, Dtype::bf16).times, 2);
  EXPECT_NE(said(384, 8, Dtype::bf16).what.find("narrowest"), std::string::npos);
  EXPECT_EQ(said(16384, 8, Dtype::bf16).times, 2);
  EXPECT_NE(said(16384, 8, Dtype::bf16).what.find("widest"), std::string::npos);
  EXPECT_EQ(said(4096, 256, Dtype::bf16).times, 4);
  EXPECT_NE(said(4096, 8, Dtype::fp32).what.find("fp32"), std::string::npos);
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
