// SPDX-License-Identifier: Apache-2.0
// Rule: the loss scale changes as DeepSpeed's two scalers change it. The expected sequences were
// derived by hand from DeepSpeed's source; each is the scale that the step after a flag uses.
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include <core/plan/deck/loss_scale.hpp>

namespace shardmark::test::loss_scale_test {
namespace {

LossScaleSpec dynamic(double initial, std::int64_t window, std::int64_t hysteresis,
                      bool consecutive = false, double min_scale = 1) {
  return {true, initial, window, hysteresis, consecutive, min_scale};
}

// One character per step: '.' is a step without overflow, 'x' one with overflow.
std::vector<double> scales(const LossScaleSpec& spec, int stage, std::string_view flags) {
  LossScaler scaler(spec, loss_scale_rule(stage));
  std::vector<double> result{scaler.scale()};
  for (const char flag : flags) {
    scaler.update(flag == 'x');
    result.push_back(scaler.scale());
  }
  return result;
}

using Scales = std::vector<double>;

TEST(LossScale, grows_at_the_step_after_a_window_then_at_every_window) {
  for (int stage = 0; stage <= 3; ++stage)
    EXPECT_EQ(scales(dynamic(8, 2, 1), stage, "......"), (Scales{8, 8, 8, 16, 16, 32, 32}))
        << "stage " << stage;
}

TEST(LossScale, the_window_starts_again_at_an_overflow) {
  for (int stage = 0; stage <= 3; ++stage)
    EXPECT_EQ(scales(dynamic(64, 2, 1), stage, "..x...."), (Scales{64, 64, 64, 32, 32, 32, 64, 64}))
        << "stage " << stage;
}

TEST(LossScale, hysteresis_lets_overflows_pass_at_stages_1_to_3_only) {
  for (int stage = 1; stage <= 3; ++stage)
    EXPECT_EQ(scales(dynamic(64, 100, 3), stage, "xxxx"), (Scales{64, 64, 64, 32, 16}));
  EXPECT_EQ(scales(dynamic(64, 100, 3), 0, "xxxx"), (Scales{64, 32, 16, 8, 4}));
}

TEST(LossScale, hysteresis_is_refilled_by_a_good_step_if_consecutive_else_by_growth) {
  EXPECT_EQ(scales(dynamic(64, 100, 2, true), 2, "x.x.xx"), (Scales{64, 64, 64, 64, 64, 64, 32}));
  EXPECT_EQ(scales(dynamic(64, 100, 2, false), 2, "x.x.xx"), (Scales{64, 64, 64, 32, 32, 16, 8}));
  EXPECT_EQ(scales(dynamic(64, 1, 2, false), 2, "x..xx"), (Scales{64, 64, 64, 128, 128, 64}));
}

TEST(LossScale, hysteresis_zero_never_halves_at_stages_1_to_3) {
  EXPECT_EQ(scales(dynamic(64, 100, 0), 1, "xxx"), (Scales{64, 64, 64, 64}));
}

TEST(LossScale, the_minimum_bounds_and_ends_a_run_at_stages_1_to_3_only) {
  LossScaler sharded(dynamic(4, 100, 1, false, 2), LossScaleRule::sharded);
  sharded.update(true);
  EXPECT_EQ(sharded.scale(), 2);
  EXPECT_FALSE(sharded.exhausted());
  sharded.update(true);
  EXPECT_EQ(sharded.scale(), 2);
  EXPECT_TRUE(sharded.exhausted());
  sharded.update(false);
  EXPECT_FALSE(sharded.exhausted());

  LossScaler replicated(dynamic(4, 100, 1, false, 2), LossScaleRule::replicated);
  for (int i = 0; i < 3; ++i) replicated.update(true);
  EXPECT_EQ(replicated.scale(), 2);
  EXPECT_FALSE(replicated.exhausted());
}

TEST(LossScale, a_minimum_that_halving_would_pass_is_met_exactly) {
  EXPECT_EQ(scales(dynamic(4, 100, 1, false, 3), 2, "x"), (Scales{4, 3}));
  EXPECT_EQ(scales(dynamic(1, 100, 1, false, 3), 2, "x"), (Scales{1, 3})) << "even upwards";
}

TEST(LossScale, a_static_scale_never_moves) {
  LossScaleSpec spec;
  spec.initial = 128;
  for (int stage = 0; stage <= 3; ++stage)
    EXPECT_EQ(scales(spec, stage, "x.x.x"), (Scales{128, 128, 128, 128, 128, 128}));
}

}  // namespace
}  // namespace shardmark::test::loss_scale_test
