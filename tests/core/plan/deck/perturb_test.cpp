// SPDX-License-Identifier: Apache-2.0
// Rules: draws depend on seed, rank and step alone; they have the rates and the distribution that
// the deck asks for; and ranks or hosts that a run lacks are refused.
#include <algorithm>

#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/plan/deck/perturb.hpp>

namespace shardmark::test::perturb_test {
namespace {

const std::vector<std::string> hosts{"a", "a", "b", "c"};

std::vector<int> slowed(const PerturbSpec& spec) {
  return slowed_ranks(spec, hosts, "deck.json");
}

TEST(Perturb, chooses_the_union_of_ranks_and_hosts) {
  PerturbSpec spec;
  spec.ranks = {3, 0};
  spec.hosts = {"a"};
  EXPECT_EQ(slowed(spec), (std::vector{0, 1, 3}));
  spec.ranks = {4};
  EXPECT_THROW(slowed(spec), DeckError);
  spec.ranks = {};
  spec.hosts = {"d"};
  EXPECT_THROW(slowed(spec), DeckError);
}

TEST(Perturb, draws_as_many_ranks_as_asked_for) {
  std::vector<int> how_often(hosts.size());
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    PerturbSpec spec;
    spec.random = 2, spec.seed = seed;
    const std::vector<int> ranks = slowed(spec);
    ASSERT_EQ(ranks.size(), 2u);
    EXPECT_EQ(ranks, slowed(spec));
    for (const int r : ranks) ++how_often[static_cast<std::size_t>(r)];
  }
  for (const int n : how_often) EXPECT_NEAR(n, 500, 80);
  PerturbSpec too_many;
  too_many.random = 5;
  EXPECT_THROW(slowed(too_many), DeckError);
}

TEST(Perturb, slows_the_steps_that_are_due) {
  PerturbSpec spec;
  spec.factor = 2, spec.pause_ms = 3, spec.every = 4;
  for (std::int64_t step = 0; step < 20; ++step) {
    const Slowness s = slowness(spec, 1, step);
    EXPECT_EQ(s.factor, step % 4 == 0 ? 2 : 1);
    EXPECT_EQ(s.pause_ns, step % 4 == 0 ? 3'000'000 : 0);
  }
}

TEST(Perturb, has_the_probability_and_the_tail_that_the_deck_gives) {
  PerturbSpec spec;
  spec.pause_ms = 1, spec.probability = 0.25, spec.tail = 2;
  constexpr int steps = 20000;
  int slow = 0, long_ones = 0;
  for (std::int64_t step = 0; step < steps; ++step) {
    const Slowness s = slowness(spec, 7, step);
    EXPECT_EQ(s.pause_ns, slowness(spec, 7, step).pause_ns);
    if (s.pause_ns == 0) continue;
    ++slow;
    EXPECT_GE(s.pause_ns, 1'000'000);
    EXPECT_LE(s.pause_ns, 1'000'000'000);
    long_ones += static_cast<int>(s.pause_ns > 4'000'000);
  }
  EXPECT_NEAR(slow, steps / 4, 250);        // 4 standard deviations
  EXPECT_NEAR(long_ones, slow / 16.0, 70);  // P(pause > 4 x the least) = 4^-2
  spec.seed = 2;
  int same = 0;
  for (std::int64_t step = 0; step < 100; ++step)
    same += static_cast<int>(slowness(spec, 7, step).pause_ns == slowness(spec, 8, step).pause_ns);
  EXPECT_LT(same, 90) << "ranks have draws of their own";
}

TEST(Perturb, writes_to_memory_in_the_steps_that_are_due) {
  PerturbSpec spec;
  spec.memory.gbps = 3, spec.every = 2;
  EXPECT_TRUE(spec.active());
  EXPECT_EQ(slowness(spec, 0, 2).memory.gbps, 3);
  EXPECT_FALSE(slowness(spec, 0, 3).memory.active());
  EXPECT_EQ(describe(spec), "3 GB/s of memory traffic, every 2 steps");
  spec.memory = {.gbps = 0, .share = 0.5};
  EXPECT_EQ(slowness(spec, 0, 2).memory.share, 0.5);
  EXPECT_EQ(describe(spec), "memory traffic in 0.5 of the time, every 2 steps");
}

TEST(Perturb, is_described_in_a_few_words) {
  PerturbSpec spec;
  EXPECT_FALSE(spec.active());
  spec.factor = 1.5;
  EXPECT_TRUE(spec.active());
  EXPECT_EQ(describe(spec), "factor 1.5");
  spec.pause_ms = 10, spec.tail = 2, spec.every = 3, spec.probability = 0.5;
  EXPECT_EQ(describe(spec),
            "factor 1.5, heavy-tailed pauses from 10 ms, every 3 steps, probability 0.5");
}

}  // namespace
}  // namespace shardmark::test::perturb_test
