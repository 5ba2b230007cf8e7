// SPDX-License-Identifier: Apache-2.0
// Rules of price() about several ranks: they wait for the last one, the slowest of equal ranks is
// as late as the machine says, and ranks without a core of their own take turns.
#include <gtest/gtest.h>

#include <tests/core/plan/price/made_up_plan.hpp>

namespace shardmark::test::rank_price_test {
namespace {

using namespace made_up;

// Work is conserved if the rank itself moves the data: a collective of 4 ms beside 10 ms of
// computation takes 14 ms, whatever its speed.
TEST(Price, ARankThatMovesTheDataItselfHidesNothing) {
  for (const double speed : {0.25, 0.5, 1.0}) {
    Plan plan;
    plan.collective(8 * mb);
    plan.kernel(20 * mb);
    const PricedStep p = price(plan.program(), machine(1, speed), on_one_node());
    EXPECT_NEAR(p.step_s, speed < 1 ? 24e-3 : p.step_s, exact) << speed;
    EXPECT_NEAR(p.exposed_s, p.step_s - 20e-3, exact) << speed;
  }
}

TEST(Price, RanksWithoutACoreOfTheirOwnTakeTurns) {
  Plan plan;
  plan.collective(8 * mb);  // 4 ms for two ranks, and nothing beside it
  plan.kernel(3 * mb);
  Machine m = machine(1, 1, true);
  PriceOptions o = on_one_node();
  const double alone = step(plan, m, o);
  m.node.cores = 2;
  EXPECT_NEAR(step(plan, m, o), alone, exact) << "two ranks on two cores";
  m.node.cores = 1;
  EXPECT_NEAR(step(plan, m, o), 2 * alone, exact);
  m.device.is_host = false;
  EXPECT_NEAR(step(plan, m, o), step(plan, machine(1, 1, false), o), exact) << "devices compute";
  EXPECT_EQ(turns_on_cores(m, 8, 2), 1) << "devices compute";
  m.device.is_host = true, m.node.cores = 4;
  EXPECT_EQ(turns_on_cores(m, 8, 2), 2);
  EXPECT_EQ(turns_on_cores(m, 8, 8), 1) << "they took turns when they were measured";
  EXPECT_EQ(turns_on_cores(m, 2, 8), 0.5);
}

// Two ranks share one core: while one of them computes, the other one waits in a collective.
TEST(Price, ShortWorkIsNotInterruptedByRanksOnTheSameCore) {
  Plan plan;
  plan.kernel(1 * mb);
  const int c = plan.collective(8 * mb);
  plan.kernel(3 * mb, {c});
  plan.kernel(4 * mb);
  Machine m = machine(1, 1, true);
  m.node.cores = 1;
  const PricedStep p = price(plan.program(), m, on_one_node());
  const auto ms = [&](std::size_t event) {
    return 1e3 * (p.events[event].end_s - p.events[event].begin_s);
  };
  EXPECT_NEAR(ms(0), 1, exact);
  EXPECT_NEAR(p.events[1].begin_s, 2e-3, exact) << "when both ranks have computed";
  EXPECT_NEAR(p.events[1].end_s, 10e-3, exact) << "twice as long as with a core of its own";
  EXPECT_NEAR(ms(2), 3, exact) << "less than a tick of the scheduler";
  EXPECT_NEAR(ms(3), 4 + 7, exact) << "the other one, which has computed nothing since, comes now";
  EXPECT_NEAR(p.step_s, 24e-3, exact);
}

TEST(Price, ACollectiveStartsWhenTheLastRankArrives) {
  Plan fast, slow;
  for (Plan* plan : {&fast, &slow}) {
    plan->kernel(plan == &fast ? 2 * mb : 7 * mb);
    const int c = plan->collective(8 * mb);
    plan->kernel(1 * mb, {c});
  }
  const auto p = price({&fast.program(), &slow.program()}, machine(), on_one_node());
  EXPECT_NEAR(p[0].step_s, 12e-3, exact);
  EXPECT_NEAR(p[1].step_s, 12e-3, exact);
  EXPECT_NEAR(p[0].exposed_s, 9e-3, exact);
  EXPECT_NEAR(p[1].exposed_s, 4e-3, exact);
  // Time in which the fast rank waits for the slow one belongs to none of its resources.
  EXPECT_NEAR(p[0].critical[Resource::network], 4e-3, exact);
}

// A machine whose ranks end 10 % of their work after their mean, if it takes a millisecond or more.
Machine with_skew() {
  Machine m = machine();
  m.jitter.rank_skew = {.ranks = 2, .points = {{1e-3, 0.1e-3}, {100e-3, 10e-3}}};
  return m;
}

TEST(Price, ACollectiveWaitsForTheSlowestOfEqualRanks) {
  Plan plan;
  plan.kernel(10 * mb);                   // 10 ms, the slowest rank 11 ms
  const int c = plan.collective(4 * mb);  // 2 ms
  plan.kernel(20 * mb, {c});
  const int d = plan.collective(4 * mb);
  plan.kernel(1 * mb, {d});
  const PricedStep p = price(plan.program(), with_skew(), on_one_node());
  // After the first wait the ranks are together again.
  EXPECT_NEAR(p.step_s, (10 + 1 + 2 + 20 + 2 + 2 + 1) * 1e-3, exact);
  EXPECT_NEAR(p.exposed_s, 7e-3, exact);
  EXPECT_NEAR(p.critical[Resource::network], 4e-3, exact) << "no network makes a rank faster";
}

TEST(Price, ComputationHidesASlowRankAsWell) {
  Plan plan;
  plan.kernel(10 * mb);
  const int c = plan.collective(4 * mb);  // from 11 to 13 ms
  plan.kernel(3 * mb);
  plan.kernel(1 * mb, {c});
  EXPECT_NEAR(step(plan, with_skew()), 14e-3, exact);
  // The next collective finds the ranks as far apart as 14 ms let them be: none waited.
  const int d = plan.collective(4 * mb);
  plan.kernel(1 * mb, {d});
  EXPECT_NEAR(step(plan, with_skew()), (14 + 1.4 + 2 + 1) * 1e-3, exact);
}

TEST(Price, RanksOnNodesOfTheirOwnHaveNoneToWaitFor) {
  Plan plan;
  plan.kernel(10 * mb);
  const int c = plan.collective(4 * mb);
  plan.kernel(1 * mb, {c});
  PriceOptions apart;
  apart.ranks_per_node = 1;
  EXPECT_EQ(step(plan, with_skew(), apart), step(plan, machine(), apart));
}

TEST(Price, RanksWhoseCollectivesDisagreeAreRefused) {
  Plan one, other;
  one.collective(1 * mb);
  other.kernel(1 * mb);
  EXPECT_THROW(price({&one.program(), &other.program()}, machine(), on_one_node()), PlanError);
}

}  // namespace
}  // namespace shardmark::test::rank_price_test
