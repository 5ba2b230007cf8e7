// SPDX-License-Identifier: Apache-2.0
// The sample of timed steps whose collectives are recorded: bounded, the same for all who ask, and
// spread over the run.
#include <algorithm>
#include <array>
#include <numeric>

#include <gtest/gtest.h>

#include <miniapp/measure/call_sample.hpp>

namespace shardmark::test::call_sample_test {
namespace {

constexpr std::int64_t calls_of_a_step = 3;

// The record of a call names its step in `elems`.
struct Recording {
  CallSample sample;
  std::vector<CollectiveRecord> records;
  std::size_t most_records = 0;

  explicit Recording(std::int64_t most_steps) : sample(most_steps) {}
  void step(std::int64_t step) {
    if (sample.takes(step))
      for (int call = 0; call < calls_of_a_step; ++call)
        records.push_back({.elems = step, .group = call});
    sample.end_step(step, records);
    most_records = std::max(most_records, records.size());
  }
  void steps(std::int64_t count) {
    for (std::int64_t s = 0; s < count; ++s) step(s);
  }
};

TEST(CallSample, has_all_steps_of_a_run_that_has_few) {
  Recording run(100);
  run.steps(100);
  std::vector<std::size_t> all(100);
  std::iota(all.begin(), all.end(), std::size_t{0});
  EXPECT_EQ(run.sample.steps(), all);
  EXPECT_EQ(run.records.size(), 100 * calls_of_a_step);
}

TEST(CallSample, stays_small_and_has_the_records_of_its_steps) {
  Recording run(100);
  run.steps(123'456);
  const std::vector<std::size_t> steps = run.sample.steps();
  EXPECT_LE(steps.size(), 100U);
  EXPECT_GE(steps.size(), 48U) << "half of them, and the last block may be incomplete";
  EXPECT_LE(run.most_records, 100 * calls_of_a_step);
  ASSERT_EQ(run.records.size(), steps.size() * calls_of_a_step);
  for (std::size_t i = 0; i < run.records.size(); ++i) {
    EXPECT_EQ(run.records[i].elems, static_cast<std::int64_t>(steps[i / calls_of_a_step]));
    EXPECT_EQ(run.records[i].group, static_cast<int>(i % calls_of_a_step));
  }
}

// One step of each block of 2^n, so that no part of the run is missed; and not always the same one,
// so that what happens in every second or every eighth step is neither missed nor always met.
TEST(CallSample, is_spread_over_the_run) {
  Recording run(1024);
  run.steps(8192);
  const std::vector<std::size_t> steps = run.sample.steps();
  ASSERT_EQ(steps.size(), 1024U);
  std::array<int, 8> at{};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    EXPECT_EQ(steps[i] / 8, i);
    ++at[steps[i] % 8];
  }
  for (const int times : at) EXPECT_NEAR(times, 128, 40);
}

// What a trace has recorded in another step is no part of it.
TEST(CallSample, drops_records_of_other_steps) {
  Recording run(1);
  run.steps(2);
  const std::vector<std::size_t> kept = run.sample.steps();
  const std::size_t before = run.records.size();
  std::int64_t other = 2;
  while (run.sample.takes(other)) ++other;
  run.records.push_back({});
  run.sample.end_step(other, run.records);
  EXPECT_EQ(run.records.size(), before);
  EXPECT_EQ(run.sample.steps(), kept);
}

TEST(CallSample, holds_a_few_mib_and_at_least_sixteen_steps) {
  EXPECT_EQ(CallSample::steps_of(64), 1024);
  EXPECT_EQ(CallSample::steps_of(0), 65536);
  EXPECT_EQ(CallSample::steps_of(1'000'000), 16);
}

}  // namespace
}  // namespace shardmark::test::call_sample_test
