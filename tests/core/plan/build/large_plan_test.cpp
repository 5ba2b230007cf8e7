// SPDX-License-Identifier: Apache-2.0
// Rule: a model with a trillion parameters on 16 384 ranks is planned, checked and printed on a
// laptop, within an address space of 500 MB. (ci/bench measures how fast.)
#include <ctime>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/print.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::large_plan_test {
namespace {

TEST(Large, ATrillionParametersOn16384Ranks) {
  struct rlimit limit {};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  const rlim_t before = limit.rlim_cur;
#if !defined(__SANITIZE_ADDRESS__)
  limit.rlim_cur = 500'000'000;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
#endif
  Deck deck = gpt2_deck(3, 128);
  deck.model.hidden = 25600;
  deck.model.heads = 128;
  deck.model.sequence = 2048;
  deck.model.vocab = 50304;
  constexpr int world = 16384;
  auto program_of = [&](int rank) { return program(deck, world, rank); };
  const Program p = program_of(world - 1);
  EXPECT_GT(p.model.elems, 1'000'000'000'000);
  require_legal(check(p));
  require_legal(check_ranks(ranks_to_check(world, 5), program_of));
  EXPECT_EQ(print_json(p, {}, "").at("steps").at("steady").size(), 3 * 130U + 1);
  EXPECT_GT(footprint(p)[Tier::device].peak_bytes, 0);
  limit.rlim_cur = before;
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

// A bucket is split into one slice per rank. Code that compares each slice with every other one
// would take minutes.
TEST(Large, StagesOneAndTwoOn100000RanksTakeNoTime) {
  Deck deck;
  deck.model.family = Family::list;
  deck.model.modules.push_back({"a", {200'000'000, 100'000'000}});
  deck.run.compute = Compute::none;
  deck.run.schedule = Schedule::deepspeed;
  for (int stage : {1, 2}) {
    deck.zero.stage = stage;
    const std::clock_t before = std::clock();
    const Program p = program(deck, 100'000, 7);
    require_legal(check(p));
    EXPECT_LT(static_cast<double>(std::clock() - before) / CLOCKS_PER_SEC, 1) << stage;
  }
}

}  // namespace
}  // namespace shardmark::test::large_plan_test
