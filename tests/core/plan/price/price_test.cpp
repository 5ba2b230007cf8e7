// SPDX-License-Identifier: Apache-2.0
// Rules of price(), on machines made by hand where the right time can be worked out by hand: lanes
// run beside each other, waits cost what is left, interference costs what the machine says, and
// ranks wait for the last one. No clock is read.
#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/plan/price/event_time.hpp>
#include <core/plan/price/price.hpp>

namespace shardmark::test::price_test {
namespace {

constexpr double exact = 1e-9;

// A plan of one segment, event by event. Every slot has `elems` elements of fp32.
class Plan {
 public:
  explicit Plan(int world = 2) {
    p_.world = world;
    p_.groups.push_back({"world", {}});
    p_.batch = {world, 1, 1};
    p_.segments.resize(4);
    p_.segments[1].kind = SegmentKind::micro;
    p_.segments[2].kind = SegmentKind::boundary;
    p_.segments[3].kind = SegmentKind::update;
    p_.steps.push_back({});
    p_.steps[0].micros = {1};
    p_.steps[0].boundary = 2;
    p_.steps[0].update = 3;
  }
  // A kernel that streams `bytes` bytes: it clears them.
  int kernel(std::int64_t bytes, std::vector<int> after = {}, Phase phase = Phase::forward) {
    Event e;
    e.kernel = Kernel::zero;
    e.phase = phase;
    p_.slots.push_back({.name = "x", .dtype = Dtype::uint8, .elems = bytes});
    e.operands = {static_cast<std::int32_t>(p_.operands.size()), 1};
    p_.operands.push_back({static_cast<std::int32_t>(p_.slots.size()) - 1, true, false, 0, bytes});
    return add(e, after);
  }
  int collective(std::int64_t bytes, std::vector<int> after = {}, Op op = Op::all_gather) {
    Event e;
    e.op = op;
    e.lane = Lane::comm;
    e.phase = Phase::forward;
    e.dtype = Dtype::uint8;
    e.elems = bytes;
    return add(e, after);
  }
  int copy(std::int64_t bytes, Tier to, std::vector<int> after = {}) {
    Event e;
    e.op = Op::copy;
    e.lane = to == Tier::nvme ? Lane::disk : Lane::copy;
    e.tier = to;
    e.phase = Phase::forward;
    e.dtype = Dtype::uint8;
    e.elems = bytes;
    return add(e, after);
  }
  void repeat(std::int64_t times) { p_.steps[0].micros.resize(times, 1); }
  const Program& program() const { return p_; }

 private:
  int add(Event e, const std::vector<int>& after) {
    e.after = {static_cast<std::int32_t>(p_.edges.size()), static_cast<std::int32_t>(after.size())};
    for (const int a : after) p_.edges.push_back(a);
    p_.segments[1].events.push_back(e);
    return static_cast<int>(p_.segments[1].events.size()) - 1;
  }
  Program p_;
};

// Memory moves 1 GB/s, the network 1 GB/s (two ranks: an all_gather of S sends S / 2), the host
// link 0.5 GB/s and the disk 0.25 GB/s. Nothing has a latency.
Machine machine(double compute_share = 0, double speed = 1, bool is_host = false) {
  Machine m;
  m.device.is_host = is_host;
  m.device.memory_bytes_per_s = 1e9;
  m.device.stream_efficiency = 1;
  NetworkLevel level;
  level.link.bytes_per_s = 1e9;
  level.compute_share = compute_share;
  level.speed_beside_compute = speed;
  m.network.push_back(level);
  m.to_device.link.bytes_per_s = m.to_host.link.bytes_per_s = 0.5e9;
  m.disk_read.link.bytes_per_s = m.disk_write.link.bytes_per_s = 0.25e9;
  return m;
}

PriceOptions on_one_node() {
  PriceOptions o;
  o.ranks_per_node = 8;
  return o;
}

double step(const Plan& plan, const Machine& m, const PriceOptions& o = on_one_node()) {
  return price(plan.program(), m, o).step_s;
}

constexpr std::int64_t mb = 1'000'000;

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
