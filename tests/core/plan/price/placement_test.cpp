// SPDX-License-Identifier: Apache-2.0
// Rules: a machine is priced with the figures of the placement whose distance between cores comes
// closest to the measured one; an unknown distance, and a machine without placements, change
// nothing.
#include <gtest/gtest.h>

#include <core/plan/price/machine.hpp>

namespace shardmark::test::placement_test {
namespace {

Machine machine() {
  Machine m;
  m.device.streams.push_back({.kernel = "mean", .points = {}});
  for (const auto& [distance_s, name] : {std::pair{30e-9, "near"}, {180e-9, "far"}}) {
    Placement& p = m.placements.emplace_back();
    p.core_to_core_s = distance_s;
    p.part = 0.5;
    p.streams.push_back({.kernel = name, .points = {}});
    p.network.emplace_back().name = name;
  }
  return m;
}

TEST(Placement, OfTheClosestDistanceCounts) {
  for (const auto& [measured_s, expected] :
       {std::pair{1e-9, "near"}, {30e-9, "near"}, {70e-9, "near"}, {80e-9, "far"}, {1e-3, "far"}}) {
    const Machine there = in_placement(machine(), measured_s);
    EXPECT_EQ(there.device.streams.at(0).kernel, expected) << measured_s;
    EXPECT_EQ(there.network.at(0).name, expected);
    EXPECT_TRUE(there.placements.empty());
  }
}

TEST(Placement, IsTheMeanWhereNothingIsKnown) {
  EXPECT_EQ(in_placement(machine(), 0).device.streams.at(0).kernel, "mean");
  Machine one = machine();
  one.placements.clear();
  EXPECT_EQ(in_placement(one, 180e-9).device.streams.at(0).kernel, "mean");
}

TEST(Placement, IsAnotherOneFromAFactorOn) {
  EXPECT_FALSE(is_other_placement(30e-9, 60e-9));
  EXPECT_TRUE(is_other_placement(30e-9, 180e-9));
  EXPECT_TRUE(is_other_placement(180e-9, 30e-9));
}

}  // namespace
}  // namespace shardmark::test::placement_test
