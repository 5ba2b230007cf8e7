// SPDX-License-Identifier: Apache-2.0
// Rule: the learning rate changes as DeepSpeed's schedulers change it. The expected values were
// derived by hand from DeepSpeed's source.
#include <cmath>

#include <gtest/gtest.h>

#include <core/plan/deck/lr_schedule.hpp>

namespace shardmark::test::lr_schedule_test {
namespace {

constexpr double optimizer_lr = 0.5;

SchedulerSpec warmup(LrSchedule type, bool linear) {
  SchedulerSpec spec;
  spec.type = type;
  spec.warmup_min_lr = 0.1;
  spec.warmup_max_lr = 0.9;
  spec.warmup_num_steps = 4;
  spec.linear = linear;
  spec.total_num_steps = 10;
  return spec;
}

double at(const SchedulerSpec& spec, std::int64_t updates) {
  return lr_at(spec, optimizer_lr, updates);
}

TEST(LrSchedule, constant_is_the_optimizers) {
  for (const std::int64_t u : {0, 1, 1000}) EXPECT_EQ(at({}, u), optimizer_lr);
}

TEST(LrSchedule, warmup_starts_with_two_steps_at_the_minimum_and_stays_at_the_maximum) {
  for (const auto type : {LrSchedule::warmup, LrSchedule::warmup_decay})
    for (const bool linear : {false, true}) {
      EXPECT_EQ(at(warmup(type, linear), 0), 0.1);
      EXPECT_EQ(at(warmup(type, linear), 1), 0.1);
    }
  const SchedulerSpec linear = warmup(LrSchedule::warmup, true);
  EXPECT_DOUBLE_EQ(at(linear, 2), 0.1 + 0.8 * 0.25);
  EXPECT_DOUBLE_EQ(at(linear, 4), 0.1 + 0.8 * 0.75);
  for (const std::int64_t u : {5, 6, 1000}) EXPECT_DOUBLE_EQ(at(linear, u), 0.9);
  const SchedulerSpec log = warmup(LrSchedule::warmup, false);
  EXPECT_DOUBLE_EQ(at(log, 2), 0.1 + 0.8 * 0.5) << "ln 2 / ln 4";
  EXPECT_DOUBLE_EQ(at(log, 3), 0.1 + 0.8 * std::log(3.0) / std::log(4.0));
  EXPECT_DOUBLE_EQ(at(log, 4), 0.9) << "ln 4 / ln 4: one step before the linear one";
  EXPECT_DOUBLE_EQ(at(log, 5), 0.9);
}

TEST(LrSchedule, decay_is_linear_from_the_end_of_the_warmup_to_zero_share) {
  const SchedulerSpec spec = warmup(LrSchedule::warmup_decay, true);
  EXPECT_DOUBLE_EQ(at(spec, 5), 0.1 + 0.8 * 6 / 6) << "i = 4: (10 - 4) / (10 - 4)";
  EXPECT_DOUBLE_EQ(at(spec, 8), 0.1 + 0.8 * 3 / 6);
  EXPECT_DOUBLE_EQ(at(spec, 11), 0.1);
  EXPECT_DOUBLE_EQ(at(spec, 50), 0.1) << "never below";
}

TEST(LrSchedule, decay_without_a_window_falls_to_the_minimum) {
  SchedulerSpec spec = warmup(LrSchedule::warmup_decay, true);
  spec.total_num_steps = 3;  // DeepSpeed warns and continues
  EXPECT_DOUBLE_EQ(at(spec, 4), 0.1 + 0.8 * 0.75);
  EXPECT_DOUBLE_EQ(at(spec, 5), 0.1);
}

TEST(LrSchedule, cosine_is_a_share_of_the_optimizers_rate) {
  SchedulerSpec spec = warmup(LrSchedule::warmup_cosine, true);
  spec.warmup_min_ratio = 0.2;
  spec.cos_min_ratio = 0.1;
  EXPECT_EQ(at(spec, 0), 0.0) << "not the minimum ratio: the scheduler has not started";
  EXPECT_DOUBLE_EQ(at(spec, 1), 0.5 * 0.2);
  EXPECT_DOUBLE_EQ(at(spec, 3), 0.5 * (0.2 + 0.8 * 0.5));
  EXPECT_DOUBLE_EQ(at(spec, 5), 0.5 * (0.1 + 0.9 * (1 + std::cos(std::acos(-1.0) / 6)) / 2));
  EXPECT_DOUBLE_EQ(at(spec, 7), 0.5 * (0.1 + 0.9 * 0.5)) << "half of the window";
  EXPECT_DOUBLE_EQ(at(spec, 10), 0.5 * 0.1);
  EXPECT_DOUBLE_EQ(at(spec, 100), 0.5 * 0.1) << "stays at the floor";
}

// Muon's matrices and what AdamW updates are two parameter groups.
TEST(LrSchedule, each_group_has_its_own_rate_and_bounds) {
  constexpr double adam_lr = 0.03;
  for (const auto type : {LrSchedule::warmup, LrSchedule::warmup_decay}) {
    SchedulerSpec spec = warmup(type, true);
    spec.adam_min_lr = 0.01;
    spec.adam_max_lr = 0.05;
    EXPECT_DOUBLE_EQ(adam_lr_at(spec, adam_lr, 0), 0.01);
    EXPECT_DOUBLE_EQ(adam_lr_at(spec, adam_lr, 2), 0.01 + 0.04 * 0.25);
    EXPECT_DOUBLE_EQ(adam_lr_at(spec, adam_lr, 5), 0.05);
    EXPECT_DOUBLE_EQ(at(spec, 2), 0.1 + 0.8 * 0.25);
  }
  const SchedulerSpec cosine = warmup(LrSchedule::warmup_cosine, true);
  for (const std::int64_t u : {0, 3, 7})
    EXPECT_DOUBLE_EQ(adam_lr_at(cosine, adam_lr, u) * optimizer_lr, at(cosine, u) * adam_lr);
  EXPECT_EQ(adam_lr_at({}, adam_lr, 5), adam_lr);
}

TEST(LrSchedule, a_warmup_of_one_step_is_one_of_two) {
  SchedulerSpec spec = warmup(LrSchedule::warmup, true);
  spec.warmup_num_steps = 1;
  EXPECT_DOUBLE_EQ(at(spec, 2), 0.1 + 0.8 * 0.5);
  EXPECT_DOUBLE_EQ(at(spec, 3), 0.9);
}

}  // namespace
}  // namespace shardmark::test::lr_schedule_test
