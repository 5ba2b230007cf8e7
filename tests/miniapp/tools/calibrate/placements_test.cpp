// SPDX-License-Identifier: Apache-2.0
// Rules: distances between cores of two kinds become two placements with points of their own, those
// of one kind none; what was measured in one placement only is scaled for the other one; figures
// without a placement are the means.
#include <gtest/gtest.h>

#include <miniapp/tools/calibrate/samples.hpp>

namespace shardmark::test::placements_test {
namespace {

constexpr double near_s = 30e-9, far_s = 180e-9;

Stream stream(double elems) {
  return {.kernel = "convert", .dtype = Dtype::fp32, .source = Dtype::fp32, .elems = elems};
}

Machine one_level() {
  Machine m;
  NetworkLevel level;
  level.collectives.push_back({.op = Op::all_gather, .points = {}});
  m.network.push_back(level);
  return m;
}

// In `far` of 40 looks the cores were far apart, where kernels take half as long and collectives
// twice. The kernel of 2000 elements ran while they were near only.
Samples measured(int far) {
  Samples s;
  for (int i = 0; i < 40; ++i) {
    const bool is_far = i < far;
    s.cores_are_apart((is_far ? far_s : near_s) * (1 + 0.01 * (i % 3)));
    s.add(stream(1000), 2, is_far ? 1e-6 : 2e-6);
    if (!is_far) s.add(stream(2000), 2, 6e-6);
    s.add(0, Op::all_gather, Dtype::fp32, false, 4096, {is_far ? 4e-6 : 2e-6});
  }
  return s;
}

double kernel_s(const std::vector<StreamTimes>& streams, double elems) {
  for (const auto& p : streams.at(0).points)
    if (p.elems == elems) return p.seconds;
  return 0;
}

// Kernels ran while the cores were near. Only collectives were measured while they were far.
TEST(Placements, AreKnownOnlyIfEnoughPointsWereMeasuredThere) {
  Samples s;
  s.cores_are_apart(near_s);
  for (int i = 0; i < 8; ++i) s.add(stream(1000 * (i + 1)), 2, 1e-6);
  for (int i = 0; i < 30; ++i) {
    s.cores_are_apart(i < 15 ? near_s : far_s);
    s.add(0, Op::all_gather, Dtype::fp32, false, 4096, {i < 15 ? 2e-6 : 4e-6});
  }
  Machine m = one_level();
  s.fill(m);
  EXPECT_TRUE(m.placements.empty());
  EXPECT_NEAR(m.node.core_to_core_s, near_s, 1e-10);
  EXPECT_DOUBLE_EQ(m.network.at(0).collectives.at(0).points.at(0).seconds, 2e-6);
  for (int i = 0; i < 2; ++i) s.add(stream(1000 * (i + 1)), 2, 3e-6);  // a quarter of the sizes
  Machine both = one_level();
  s.fill(both);
  EXPECT_EQ(both.placements.size(), 2U);
}

TEST(Placements, AreOfTwoKindsOfDistances) {
  EXPECT_TRUE(kinds_of_distances(std::vector<double>(30, near_s)).empty());
  EXPECT_TRUE(kinds_of_distances({near_s, far_s}).empty()) << "too few";
  std::vector<double> distances(30, near_s);
  distances.push_back(far_s);
  EXPECT_TRUE(kinds_of_distances(distances).empty()) << "one look may have been disturbed";
  distances.insert(distances.end(), 10, far_s);
  const auto kinds = kinds_of_distances(distances);
  ASSERT_EQ(kinds.size(), 2U);
  EXPECT_TRUE(kinds[0].holds(near_s) && !kinds[0].holds(far_s) && !kinds[0].holds(0));
  EXPECT_TRUE(kinds[1].holds(far_s) && !kinds[1].holds(near_s));
}

TEST(Placements, HavePointsOfTheirOwn) {
  Machine m = one_level();
  measured(10).fill(m);
  ASSERT_EQ(m.placements.size(), 2U);
  const Placement &near = m.placements[0], &far = m.placements[1];
  EXPECT_NEAR(near.core_to_core_s, near_s, 1e-9);
  EXPECT_NEAR(far.core_to_core_s, far_s, 4e-9);
  EXPECT_NEAR(far.part, 0.25, 1e-9);
  EXPECT_NEAR(kernel_s(near.streams, 1000), 2e-6, 1e-12);
  EXPECT_NEAR(kernel_s(far.streams, 1000), 1e-6, 1e-12);
  EXPECT_NEAR(kernel_s(far.streams, 2000), 3e-6, 1e-12) << "half as long as near, as others are";
  EXPECT_NEAR(near.network[0].collectives[0].points.at(0).seconds, 2e-6, 1e-12);
  EXPECT_NEAR(far.network[0].collectives[0].points.at(0).seconds, 4e-6, 1e-12);
  EXPECT_NEAR(kernel_s(m.device.streams, 1000), 0.75 * 2e-6 + 0.25 * 1e-6, 1e-12);
  EXPECT_NEAR(m.network[0].collectives[0].points.at(0).seconds, 0.75 * 2e-6 + 0.25 * 4e-6, 1e-12);
}

TEST(Placements, HaveTheMeanShareThatCollectivesTakeFromComputation) {
  Samples s = measured(10);
  s.add_share_of_compute(0, 0.5);
  s.add_share_of_compute(0, 0.7);
  Machine m = one_level();
  s.fill(m);
  ASSERT_EQ(m.placements.size(), 2U);
  for (const NetworkLevel* level : {&m.network[0], &m.placements[1].network[0]}) {
    EXPECT_NEAR(level->compute_share, 0.6, 1e-12);
    EXPECT_EQ(level->speed_beside_compute, 0.5);
  }
}

// The cores were far apart while the first verb was measured, but not during the second one.
TEST(Placements, ScaleAVerbAsTheOthers) {
  Samples s = measured(10);
  s.cores_are_apart(near_s);
  s.add(0, Op::broadcast, Dtype::fp32, false, 4096, {5e-6});
  Machine m = one_level();
  m.network[0].collectives.push_back({.op = Op::broadcast, .points = {}});
  s.fill(m);
  ASSERT_EQ(m.placements.size(), 2U);
  EXPECT_NEAR(m.placements[0].network[0].collectives[1].points.at(0).seconds, 5e-6, 1e-12);
  EXPECT_NEAR(m.placements[1].network[0].collectives[1].points.at(0).seconds, 10e-6, 1e-12);
}

TEST(Placements, AreNoneIfTheCoresStayed) {
  Machine m = one_level();
  measured(40).fill(m);
  EXPECT_TRUE(m.placements.empty());
  EXPECT_NEAR(m.node.core_to_core_s, far_s, 4e-9);
  EXPECT_NEAR(kernel_s(m.device.streams, 1000), 1e-6, 1e-12);
}

}  // namespace
}  // namespace shardmark::test::placements_test
