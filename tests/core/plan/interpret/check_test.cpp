// SPDX-License-Identifier: Apache-2.0
// Rule: the check finds each kind of illegal plan. There is one broken plan per rule, made from a
// legal one.
#include <algorithm>
#include <limits>

#include <gtest/gtest.h>

#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/check.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::check_test {
namespace {

bool found(const std::vector<Violation>& all, Rule rule) {
  return std::any_of(all.begin(), all.end(), [&](const Violation& v) { return v.rule == rule; });
}

std::string text(const std::vector<Violation>& all) {
  std::string s;
  for (const Violation& v : all)
    s += std::string(to_string(v.rule)) + " " + v.where + ": " + v.what + "\n";
  return s;
}

class BrokenPlan : public ::testing::Test {
 protected:
  Program p = program(gpt2_deck(3), 2, 0, 2);
  void TearDown() override { EXPECT_TRUE(check(program(gpt2_deck(3), 2, 0, 2)).empty()); }
  void expect(Rule rule) {
    const auto violations = check(p);
    EXPECT_TRUE(found(violations, rule)) << "not found: " << to_string(rule) << "\n"
                                         << text(violations);
    EXPECT_THROW(require_legal(violations), PlanError);
  }
  Event& event(std::string_view segment, Op op) {
    return find_event(p, segment, [op](const Event& e) { return e.op == op; });
  }
};

TEST_F(BrokenPlan, NotAlive) {
  Event& e = event("micro_first", Op::acquire);
  e.op = Op::release;
  expect(Rule::not_alive);
}

TEST_F(BrokenPlan, AcquiredTwice) {
  Event& e = event("micro_first", Op::release);
  e.op = Op::acquire;
  expect(Rule::acquired_twice);
}

TEST_F(BrokenPlan, NotReleased) {
  auto& events = p.segments[1].events;
  const auto last = std::find_if(events.rbegin(), events.rend(),
                                 [](const Event& e) { return e.op == Op::release; });
  last->op = Op::barrier;  // an event without any effect on memory
  last->group = 0;
  last->operands.count = 0;
  last->lane = Lane::comm;
  expect(Rule::not_released);
}

TEST_F(BrokenPlan, Junction) {
  auto& alive = p.segments[1].entry.alive;
  alive.pop_back();
  expect(Rule::junction);
}

TEST_F(BrokenPlan, JunctionWithoutASegment) {
  p.segments.pop_back();
  expect(Rule::junction);
}

TEST_F(BrokenPlan, Bounds) {
  Event& e = event("micro_first", Op::all_gather);
  p.operands[e.operands.first].offset = 1;
  expect(Rule::bounds);
}

TEST_F(BrokenPlan, UndefinedRead) {
  Event& e =
      find_event(p, "micro_first", [](const Event& x) { return x.kernel == Kernel::load_batch; });
  e.operands.count = 0;  // the tokens are never loaded
  expect(Rule::undefined_read);
}

TEST_F(BrokenPlan, Race) {
  Event& e =
      find_event(p, "micro_first", [](const Event& x) { return x.kernel == Kernel::forward; });
  ASSERT_GT(e.after.count, 0);
  e.after.count = 0;  // reads gathered parameters while the collective is still running
  expect(Rule::race);
}

TEST_F(BrokenPlan, ReleaseUnderACollective) {
  Event& e = find_event(p, "micro_first", [](const Event& x) {
    return x.op == Op::release && x.category == Category::bucket && x.after.count > 0;
  });
  e.after.count = 0;
  expect(Rule::race);
}

TEST_F(BrokenPlan, Edge) {
  Event& e = find_event(p, "micro_first", [](const Event& x) { return x.after.count > 0; });
  p.edges[e.after.first] = 1 << 20;
  expect(Rule::edge);
}

TEST_F(BrokenPlan, KernelThatReachesIntoTheHost) {
  Event& e =
      find_event(p, "micro_first", [](const Event& x) { return x.kernel == Kernel::forward; });
  p.slots[p.operands[e.operands.first].slot].tier = Tier::host;
  expect(Rule::tiers);
}

TEST(BrokenCopy, WithinATierOrOfAnotherSizeOrType) {
  Deck deck = gpt2_deck(2, 2);
  deck.run.schedule = Schedule::deepspeed;
  deck.zero.offload_optimizer.enabled = true;
  const Program good = program(deck, 2, 0, 2);
  EXPECT_TRUE(check(good).empty()) << text(check(good));
  const auto broken = [&](auto break_it) {
    Program p = good;
    break_it(p, find_event(p, "update", [](const Event& e) { return e.op == Op::copy; }));
    EXPECT_TRUE(found(check(p), Rule::tiers)) << text(check(p));
  };
  broken([](Program& p, Event& e) {
    const std::int32_t slot = p.operands[e.operands.first].slot;
    p.slots[slot].tier = Tier::host;
  });
  broken([](Program& p, Event& e) { --p.operands[e.operands.first].elems; });
  broken([](Program&, Event& e) { e.dtype = Dtype::int32; });
  broken([](Program&, Event& e) { e.lane = Lane::compute; });
}

TEST_F(BrokenPlan, DivisorOfAKernelThatDoesNotDivide) {
  find_event(p, "update", [](const Event& e) { return e.kernel == Kernel::adamw; }).divisor = 2;
  expect(Rule::divisor);
}

TEST(BrokenDeepSpeedPlan, DividesByNothing) {
  Deck deck = gpt2_deck(1);
  deck.run.schedule = Schedule::deepspeed;
  Program p = program(deck, 2, 0);
  EXPECT_TRUE(check(p).empty());
  const auto divides = [](const Event& e) { return e.divisor != 1; };
  for (const double divisor : {0.0, -2.0, std::numeric_limits<double>::quiet_NaN()}) {
    find_event(p, "micro_only", divides).divisor = divisor;
    EXPECT_TRUE(found(check(p), Rule::divisor)) << divisor;
  }
}

TEST_F(BrokenPlan, GradientReducedTwice) {
  auto& events = p.segments[1].events;
  const auto it = std::find_if(events.begin(), events.end(),
                               [](const Event& e) { return e.op == Op::reduce_scatter; });
  Event again = *it;
  again.after.count = 0;  // events of the same lane are ordered without an edge
  events.push_back(again);
  expect(Rule::gradient);
}

TEST_F(BrokenPlan, GradientNeverReduced) {
  Event& e = event("micro_last", Op::reduce_scatter);
  e.params.count = 0;
  expect(Rule::gradient);
}

// The bucket fills again before its reduced content is copied out.
TEST(BrokenDeepSpeedPlan, ReducedGradientOverwrittenBeforeItIsRead) {
  Deck deck;
  deck.model.family = Family::list;
  for (const char* name : {"a", "b", "c"}) deck.model.modules.push_back({name, {60}});
  deck.run.compute = Compute::none;
  deck.zero.stage = 3;
  deck.zero.knobs.reduce_bucket_size = 60;
  deck.zero.knobs.reduce_scatter = false;
  Program p = program(deck, 2, 0);
  EXPECT_TRUE(check(p).empty());
  std::vector<Event>& events = p.segments[1].events;
  const auto reduced = std::find_if(events.begin(), events.end(),
                                    [](const Event& e) { return e.op == Op::all_reduce; });
  Event &out = reduced[1], &refill = reduced[2];
  ASSERT_TRUE(out.kernel == Kernel::convert && refill.kernel == Kernel::convert);
  std::swap(out.operands, refill.operands);
  const auto violations = check(p);
  EXPECT_NE(text(violations).find("no reduction delivered"), std::string::npos) << text(violations);
}

TEST_F(BrokenPlan, Collective) {
  Event& e = event("micro_first", Op::all_gather);
  e.elems += 1;
  expect(Rule::collective);
}

TEST_F(BrokenPlan, CollectiveWithoutItsGroup) {
  event("micro_first", Op::all_gather).group = 5;
  expect(Rule::collective);
}

TEST_F(BrokenPlan, CollectiveRootOutsideItsGroup) {
  Event& e = event("micro_first", Op::all_gather);
  e.op = Op::broadcast;
  e.root = 2;
  p.operands[e.operands.first].elems = e.elems / 2;
  expect(Rule::collective);
}

TEST(CheckRanks, LegalRanksAgreeAndBrokenOnesDoNot) {
  const Deck deck = gpt2_deck(2);
  auto legal = [&](int rank) { return program(deck, 3, rank); };
  EXPECT_TRUE(check_ranks({0, 1, 2}, legal).empty());
  auto broken = [&](int rank) {
    Program p = legal(rank);
    if (rank == 1)
      find_event(p, "micro_only", [](const Event& e) { return is_collective(e.op); }).elems += 3;
    return p;
  };
  const auto violations = check_ranks({0, 1, 2}, broken);
  EXPECT_TRUE(found(violations, Rule::ranks_disagree)) << text(violations);
  auto missing = [&](int rank) {
    Program p = legal(rank);
    if (rank == 2) p.segments.pop_back();
    return p;
  };
  EXPECT_TRUE(found(check_ranks({0, 1, 2}, missing), Rule::ranks_disagree));
}

// Two of four ranks share a copy of the states: the groups are shard (1) and replicas (2).
class BrokenGroups : public ::testing::Test {
 protected:
  static Program legal(int rank) {
    Deck deck = gpt2_deck(2);
    deck.run.shard_size = 2;
    return program(deck, 4, rank, 2);
  }
  Program p = legal(1);
  void SetUp() override {
    EXPECT_TRUE(check(p).empty());
    EXPECT_TRUE(check_ranks({0, 1, 2, 3}, legal).empty());
  }
  Event& among_replicas(Program& of) {
    return find_event(of, "micro_last", [](const Event& e) { return e.group == 2; });
  }
  void expect(Rule rule, const std::string& what) {
    const auto violations = check(p);
    EXPECT_TRUE(found(violations, rule)) << text(violations);
    EXPECT_NE(text(violations).find(what), std::string::npos) << text(violations);
  }
  // `change` modifies what rank 3 does.
  template<class Change>
  void expect_disagreement(Change change, const std::string& what) {
    const auto violations = check_ranks({0, 1, 2, 3}, [&](int rank) {
      Program of = legal(rank);
      if (rank == 3) change(of);
      return of;
    });
    EXPECT_TRUE(found(violations, Rule::ranks_disagree)) << what;
    EXPECT_NE(text(violations).find(what), std::string::npos) << text(violations);
  }
};

TEST_F(BrokenGroups, AGradientThatReplicasDoNotReduce) {
  among_replicas(p).params.count = 0;
  expect(Rule::gradient, "exit declares gradients reduced");
}

TEST_F(BrokenGroups, AGradientReducedTwiceInOneGroup) {
  among_replicas(p).group = 1;
  expect(Rule::gradient, "nothing new was added");
}

TEST_F(BrokenGroups, AppliedFromWhereReplicasHaveReducedNothing) {
  Event& e = among_replicas(p);
  for (int i = 0; i < 2; ++i) p.operands[e.operands.first + i].elems -= 1;
  e.elems -= 1;
  expect(Rule::gradient, "no reduction delivered");
}

TEST_F(BrokenGroups, GroupsThatDoNotSpanTheWorld) {
  p.groups[2].ranks = {1};
  expect(Rule::gradient, "span 2 ranks of 4");
}

// Each group is a queue of its own, so the result of one group must be complete before the other
// group sends it.
TEST_F(BrokenGroups, TheSecondLevelDoesNotWaitForTheFirst) {
  Event& e = among_replicas(p);
  ASSERT_GT(e.after.count, 0);
  e.after.count = 0;
  expect(Rule::race, "on lane comm");
}

TEST_F(BrokenGroups, ACollectiveOfAGroupThatItsRankIsNotIn) {
  p.groups[1].ranks = {2, 3};
  expect(Rule::collective, "rank 1 is not in group shard");
}

TEST_F(BrokenGroups, RanksDisagreeOnACollectiveOfAGroup) {
  expect_disagreement([&](Program& of) { among_replicas(of).elems += 2; }, "group replicas");
}

TEST_F(BrokenGroups, RanksDisagreeOnWhoIsInAGroup) {
  expect_disagreement([](Program& of) { of.groups[1].ranks = {0, 3}; }, "group shard");
}

// The order within each group stays the same, but a rank that waits in one group makes the other
// group wait.
TEST_F(BrokenGroups, RanksGoThroughTheirGroupsInAnotherOrder) {
  expect_disagreement(
      [&](Program& of) {
        std::vector<Event>& events =
            of.segments[static_cast<std::size_t>(of.steps[0].micros[1])].events;
        const auto second =
            std::find_if(events.begin(), events.end(), [](const Event& e) { return e.group == 2; });
        const auto first = std::find_if(std::make_reverse_iterator(second), events.rend(),
                                        [](const Event& e) { return is_collective(e.op); });
        ASSERT_NE(first, events.rend());
        std::swap(*first, *second);
      },
      "in one order");
}

TEST(CheckRanks, LargeWorldsAreSampledAtBothEndsAndAtTheRankAskedFor) {
  const auto ranks = ranks_to_check(16384, 4711);
  EXPECT_EQ(ranks.front(), 0);
  EXPECT_EQ(ranks.back(), 16383);
  EXPECT_NE(std::find(ranks.begin(), ranks.end(), 4711), ranks.end());
  EXPECT_EQ(ranks_to_check(4, 0).size(), 4U);
}

}  // namespace
}  // namespace shardmark::test::check_test
