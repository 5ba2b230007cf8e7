// SPDX-License-Identifier: Apache-2.0
// Rules of price() about the lanes of one rank: they run beside each other, waits cost what is
// left, and interference costs what the machine says. No clock is read.
#include <gtest/gtest.h>

#include <tests/core/plan/price/made_up_plan.hpp>

namespace shardmark::test::price_test {
namespace {

using namespace made_up;

TEST(Price, OneLaneAddsUp) {
  Plan plan;
  plan.kernel(3 * mb);
  plan.kernel(5 * mb);
  EXPECT_NEAR(step(plan, machine()), 8e-3, exact);
}

TEST(Price, LanesRunBesideEachOther) {
  Plan plan;
  plan.collective(8 * mb);  // 4 ms
  plan.kernel(10 * mb);
  const PricedStep p = price(plan.program(), machine(), on_one_node());
  EXPECT_NEAR(p.step_s, 10e-3, exact);
  EXPECT_NEAR(p.exposed_s, 0, exact);
  EXPECT_NEAR(p.hidden_s, 4e-3, exact);
  EXPECT_NEAR(p.busy_s[Lane::comm], 4e-3, exact);
}

TEST(Price, WhatComputationDoesNotHideIsExposed) {
  Plan plan;
  const int c = plan.collective(16 * mb);  // 8 ms
  plan.kernel(3 * mb);
  plan.kernel(2 * mb, {c});
  const PricedStep p = price(plan.program(), machine(), on_one_node());
  EXPECT_NEAR(p.step_s, 10e-3, exact);
  EXPECT_NEAR(p.exposed_s, 5e-3, exact);
  EXPECT_NEAR(p.critical[Resource::network], 5e-3, exact);
  EXPECT_NEAR(p.critical[Resource::memory], 5e-3, exact);
}

TEST(Price, TheTailIsExposedAtTheEndOfASegment) {
  Plan plan;
  plan.kernel(3 * mb);
  plan.collective(8 * mb);
  EXPECT_NEAR(step(plan, machine()), 7e-3, exact);
}

TEST(Price, CollectivesOfAGroupRunOneAfterAnother) {
  Plan plan;
  plan.collective(4 * mb);
  const int second = plan.collective(4 * mb);
  plan.kernel(1 * mb, {second});
  EXPECT_NEAR(step(plan, machine()), 5e-3, exact);
}

// A copy of what an update has just written finds some of it in a cache.
TEST(Price, CopiesAfterAnUpdateHavePointsOfTheirOwn) {
  Machine m = machine();
  const Stream copy{.kernel = "convert", .elems = 1000};
  Stream after = copy;
  after.updated = true;
  m.device.streams.push_back({.kernel = "convert", .points = {{1000, 1, 4e-6}}});
  EXPECT_NEAR(EventTimes(m, 1).stream(after).total(), 4e-6, exact) << "no others were measured";
  m.device.streams.push_back({.kernel = "convert", .updated = true, .points = {{1000, 1, 3e-6}}});
  EventTimes times(m, 1);
  EXPECT_NEAR(times.stream(copy).total(), 4e-6, exact);
  EXPECT_NEAR(times.stream(after).total(), 3e-6, exact);
}

// A share of 0.25 at half speed: the collective takes 8 ms beside computation and 1 ms from it.
TEST(Price, InterferenceSlowsBothSides) {
  Plan plan;
  const int c = plan.collective(8 * mb);
  plan.kernel(10 * mb);
  plan.kernel(1 * mb, {c});
  const PricedStep p = price(plan.program(), machine(0.25, 0.5), on_one_node());
  EXPECT_NEAR(p.step_s, 12e-3, exact);
  const PricedEvent& flight = p.events[0];
  EXPECT_NEAR(flight.end_s - flight.begin_s, 8e-3, exact);
}

TEST(Price, ADeviceCopiesBesideKernels) {
  Plan plan;
  const int c = plan.copy(4 * mb, Tier::device);  // 8 ms
  plan.kernel(6 * mb);
  plan.kernel(1 * mb, {c});
  EXPECT_NEAR(step(plan, machine()), 9e-3, exact);
  EXPECT_NEAR(step(plan, machine(0, 1, true)), 15e-3, exact) << "a CPU copies by itself";
}

TEST(Price, AnEmulatedLinkGoesOnAfterTheCopy) {
  Plan plan;
  const int c = plan.copy(4 * mb, Tier::device);
  plan.kernel(6 * mb);
  plan.kernel(1 * mb, {c});
  PriceOptions o = on_one_node();
  o.host_link_bytes_per_s = 0.2e9;  // 20 ms, of which the rank itself copies for 8 ms
  EXPECT_NEAR(step(plan, machine(0, 1, true), o), 21e-3, exact);
}

// Reads of two sub-groups, the second beside the update of the first.
TEST(Price, FilesAreAPipeline) {
  Plan plan;
  const int first = plan.copy(1 * mb, Tier::nvme);   // 4 ms
  const int second = plan.copy(2 * mb, Tier::nvme);  // 8 ms
  plan.kernel(3 * mb, {first});
  plan.kernel(3 * mb, {second});
  const PricedStep p = price(plan.program(), machine(0, 1, true), on_one_node());
  EXPECT_NEAR(p.step_s, 15e-3, exact);
  EXPECT_NEAR(p.copies_s, 9e-3, exact);
  EXPECT_NEAR(p.critical[Resource::disk], 9e-3, exact);
}

TEST(Price, ADelayIsALeastTime) {
  Plan plan;
  const int c = plan.collective(2 * mb);  // 1 ms
  plan.kernel(1 * mb, {c});
  PriceOptions o = on_one_node();
  o.delay_s = 5e-3;
  EXPECT_NEAR(step(plan, machine(), o), 6e-3, exact);
  o.delay_s = 0.5e-3;
  EXPECT_NEAR(step(plan, machine(), o), 2e-3, exact);
}

TEST(Price, RepeatedMicroBatchesAreMultiplied) {
  Plan plan;
  const int c = plan.collective(4 * mb);
  plan.kernel(1 * mb, {c});
  plan.repeat(1000);
  const PricedStep p = price(plan.program(), machine(), on_one_node());
  EXPECT_NEAR(p.step_s, 3.0, 1e-6);
  EXPECT_LE(p.events.size(), 10U);
}

TEST(Price, PhasesAddUpToTheStep) {
  Plan plan;
  const int c = plan.collective(4 * mb);
  plan.kernel(1 * mb, {c}, Phase::forward);
  plan.kernel(2 * mb, {}, Phase::backward);
  plan.kernel(3 * mb, {}, Phase::step);
  const PricedStep p = price(plan.program(), machine(0.5, 0.5), on_one_node());
  double sum = 0;
  for (const double s : p.phase_s) sum += s;
  EXPECT_NEAR(sum, p.step_s, exact);
}

// A plan in which everything happens.
Plan busy_plan() {
  Plan plan;
  const int a = plan.collective(6 * mb);
  plan.kernel(2 * mb);
  const int b = plan.collective(3 * mb, {}, Op::reduce_scatter);
  const int c = plan.copy(1 * mb, Tier::host);
  const int f = plan.copy(1 * mb, Tier::nvme, {c});
  plan.kernel(4 * mb, {a});
  plan.kernel(1 * mb, {b, f});
  return plan;
}

TEST(Price, NoResourceThatGetsFasterSlowsAStep) {
  for (const double share : {0.0, 0.3, 1.0}) {
    const Machine m = machine(share, 0.5, share == 1);
    const double before = step(busy_plan(), m);
    for (const Resource r : all_values<Resource>) {
      PriceOptions o = on_one_node();
      o.speeds[r] = 1.5;
      EXPECT_LE(step(busy_plan(), m, o), before + exact) << to_string(r);
    }
  }
}

TEST(Price, MoreBytesAreNeverFaster) {
  double before = 0;
  for (std::int64_t bytes = mb; bytes <= 64 * mb; bytes *= 2) {
    Plan plan;
    const int c = plan.collective(bytes);
    plan.kernel(5 * mb);
    plan.kernel(1 * mb, {c});
    const double now = step(plan, machine(0.3, 0.7));
    EXPECT_GE(now, before);
    before = now;
  }
}

TEST(Price, WithoutCommunicationAStepTakesItsComputation) {
  Machine m = machine(1, 0.5);
  m.network.clear();
  EXPECT_NEAR(step(busy_plan(), m) - price(busy_plan().program(), m, on_one_node()).copies_s, 7e-3,
              exact);
}

}  // namespace
}  // namespace shardmark::test::price_test
