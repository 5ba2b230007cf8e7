// SPDX-License-Identifier: Apache-2.0
// Rule: the plans of a small model are those stored as text. These files are the specification that
// a reader sees, and a change of a schedule shows as a change of these files. To renew them:
//     SHARDMARK_RENEW_GOLDEN=1 build/tests/test_plan --gtest_filter='Golden*'
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <tuple>

#include <gtest/gtest.h>

#include <core/plan/interpret/print.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::golden_test {
namespace {

class Golden : public ::testing::TestWithParam<std::tuple<const char*, int>> {};

// "deepspeed-offload" is the schedule `deepspeed` with everything on the host that can be there.
bool offloads(const std::string& schedule) {
  return schedule == "deepspeed-offload";
}

Deck deck_of(const std::string& schedule, int stage) {
  // DeepSpeed's stage 3 has one plan per step until the steps repeat, so one block is enough to
  // read.
  Deck deck = gpt2_deck(stage, stage == 3 && schedule != "paper" ? 1 : 2);
  deck.run.schedule = schedule == "paper" ? Schedule::paper : Schedule::deepspeed;
  deck.zero.offload_optimizer.enabled = offloads(schedule);
  deck.zero.offload_param.enabled = offloads(schedule) && stage == 3;
  if (offloads(schedule)) deck.zero.precision.model = Dtype::bf16;
  deck.zero.precision.grad_accum = deck.zero.precision.comm = deck.zero.precision.model;
  deck.zero.knobs.overlap_comm = stage == 3;
  deck.zero.knobs.reduce_bucket_size = 4000;
  deck.zero.knobs.prefetch_bucket_size = 2000;
  deck.zero.knobs.max_live_parameters = 6000;
  deck.zero.knobs.max_reuse_distance = 2000;
  deck.zero.knobs.param_persistence_threshold = 24;
  return deck;
}

std::int64_t deck_accumulation(const std::string& schedule, int stage) {
  return stage == 3 && schedule != "paper" ? 1 : 2;
}

void expect_stored(const std::string& name, const std::string& now) {
  const std::string path = std::string(SHARDMARK_TESTS) + "/golden/" + name + ".txt";
  if (std::getenv("SHARDMARK_RENEW_GOLDEN") != nullptr) {
    std::ofstream(path) << now;
    GTEST_SKIP() << "renewed " << path;
  }
  std::stringstream stored;
  stored << std::ifstream(path).rdbuf();
  std::string a, b;
  std::istringstream have(now), want(stored.str());
  for (int line = 1;; ++line) {
    const bool more_have = static_cast<bool>(std::getline(have, a));
    const bool more_want = static_cast<bool>(std::getline(want, b));
    if (!more_have && !more_want) break;
    ASSERT_EQ(more_have ? a : "(end)", more_want ? b : "(end)") << path << ", line " << line;
  }
}

TEST_P(Golden, PlanIsAsStored) {
  const auto [schedule, stage] = GetParam();
  expect_stored(
      std::string(schedule) + "-z" + std::to_string(stage),
      print_text(program(deck_of(schedule, stage), 3, 1, deck_accumulation(schedule, stage))));
}

// States partitioned over two of four ranks, and a secondary copy of the parameters partitioned
// over two.
TEST(GoldenTwoLevels, PlansAreAsStored) {
  Deck paper = deck_of("paper", 3);
  paper.run.shard_size = 2;
  expect_stored("paper-z3-shard2", print_text(program(paper, 4, 1, 2)));
  Deck deepspeed = deck_of("deepspeed", 3);
  deepspeed.zero.knobs.hpz_partition_size = 2;
  expect_stored("deepspeed-z3-hpz2", print_text(program(deepspeed, 4, 1)));
}

// All states in files, as far as they are large enough for a file.
TEST(GoldenFiles, PlanIsAsStored) {
  Deck deck = deck_of("deepspeed", 3);
  put_in_files(deck, true, true);
  deck.zero.knobs.sub_group_size = 1200;
  expect_stored("deepspeed-nvme-z3", print_text(program(deck, 3, 1)));
}

INSTANTIATE_TEST_SUITE_P(Stages, Golden,
                         ::testing::Combine(::testing::Values("paper", "deepspeed"),
                                            ::testing::Values(0, 1, 2, 3)));
INSTANTIATE_TEST_SUITE_P(Offload, Golden,
                         ::testing::Combine(::testing::Values("deepspeed-offload"),
                                            ::testing::Values(2, 3)));

}  // namespace
}  // namespace shardmark::test::golden_test
