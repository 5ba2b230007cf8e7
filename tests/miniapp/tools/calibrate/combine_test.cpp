// SPDX-License-Identifier: Apache-2.0
// Rules: what several calibrations measured has their mean, each of them counts the same, and a
// placement by its part; what only one of them met is kept.
#include <gtest/gtest.h>

#include <miniapp/tools/calibrate/calibrate.hpp>

namespace shardmark::test::combine_test {
namespace {

constexpr double near_s = 30e-9, far_s = 180e-9;

// All times are `factor` times as long as those of a machine with 1.
Machine calibrated(double factor, double core_to_core_s = 0) {
  Machine m;
  m.provenance.samples = 100;
  m.provenance.commands = {"calibrate"};
  m.node.core_to_core_s = core_to_core_s;
  m.device.peak_flops[Dtype::fp32] = 1e9 / factor;
  m.device.event_s = factor * 1e-6;
  m.device.products.push_back({.points = {{64, 64, 64, 1, factor * 8e-6}}});
  m.device.streams.push_back({.kernel = "convert", .points = {{1000, 1, factor * 2e-6}}});
  NetworkLevel level;
  level.compute_share = factor / 10;
  level.collectives.push_back({.op = Op::all_gather, .points = {{4096, factor * 4e-6}}});
  m.network.push_back(level);
  m.to_host.points = {{4096, factor * 1e-6}};
  m.jitter.rank_skew = {.ranks = 2, .points = {{1e-3, factor * 1e-4}}};
  return m;
}

double kernel_s(const std::vector<StreamTimes>& streams) {
  return streams.at(0).points.at(0).seconds;
}
double gather_s(const std::vector<NetworkLevel>& network) {
  return network.at(0).collectives.at(0).points.at(0).seconds;
}

TEST(Combined, HasTheMeansOfAllCalibrations) {
  const Machine two = combined(calibrated(3), calibrated(1));
  EXPECT_EQ(two.provenance.calibrations, 2);
  const Machine m = combined(calibrated(5), two);  // 1, 3 and 5: a mean of 3
  EXPECT_EQ(m.provenance.calibrations, 3);
  EXPECT_EQ(m.provenance.samples, 300);
  EXPECT_EQ(m.provenance.commands.size(), 3U);
  EXPECT_DOUBLE_EQ(m.device.products[0].points[0].seconds, 24e-6);
  EXPECT_DOUBLE_EQ(kernel_s(m.device.streams), 6e-6);
  EXPECT_DOUBLE_EQ(gather_s(m.network), 12e-6);
  EXPECT_DOUBLE_EQ(m.network[0].link.latency_s, 12e-6);
  EXPECT_DOUBLE_EQ(m.network[0].compute_share, 0.3);
  EXPECT_DOUBLE_EQ(m.to_host.points[0].seconds, 3e-6);
  EXPECT_DOUBLE_EQ(m.to_host.link.latency_s, 3e-6);
  EXPECT_DOUBLE_EQ(m.jitter.rank_skew.points[0].seconds, 3e-4);
  EXPECT_DOUBLE_EQ(m.device.event_s, 3e-6);
  EXPECT_DOUBLE_EQ(m.device.peak_flops[Dtype::fp32], 1e9) << "the best that was seen";
}

TEST(Combined, KeepsWhatOnlyTheLaterOneMeasured) {
  Machine later = calibrated(3);
  later.device.products[0].points.push_back({128, 64, 64, 1, 7e-6});
  later.device.streams.push_back({.kernel = "clear", .points = {{1000, 1, 9e-6}}});
  later.network[0].collectives[0].points.push_back({536870912, 0.5});
  Machine earlier = calibrated(1);
  earlier.network[0].collectives[0].points.push_back({536870900, 0.25});  // as a file has it
  const Machine m = combined(later, earlier);
  EXPECT_DOUBLE_EQ(m.device.products[0].points[0].seconds, 16e-6);
  EXPECT_DOUBLE_EQ(m.device.products[0].points[1].seconds, 7e-6);
  EXPECT_DOUBLE_EQ(m.device.streams[1].points[0].seconds, 9e-6);
  EXPECT_DOUBLE_EQ(m.network[0].collectives[0].points[1].seconds, 0.375);
}

TEST(Combined, HasThePlacementsOfBoth) {
  const Machine both = combined(calibrated(1, near_s), calibrated(3, far_s));
  ASSERT_EQ(both.placements.size(), 2U);
  EXPECT_EQ(both.node.core_to_core_s, 0);
  EXPECT_DOUBLE_EQ(kernel_s(both.placements[0].streams), 2e-6);
  EXPECT_DOUBLE_EQ(kernel_s(both.placements[1].streams), 6e-6);
  EXPECT_DOUBLE_EQ(kernel_s(both.device.streams), 4e-6);
  // Once more near: that placement has two of three parts.
  const Machine m = combined(calibrated(4, near_s), both);
  ASSERT_EQ(m.placements.size(), 2U);
  EXPECT_DOUBLE_EQ(m.placements[0].part, 2 / 3.0);
  EXPECT_DOUBLE_EQ(kernel_s(m.placements[0].streams), 5e-6);
  EXPECT_DOUBLE_EQ(gather_s(m.placements[0].network), 10e-6);
  EXPECT_DOUBLE_EQ(kernel_s(m.placements[1].streams), 6e-6);
  EXPECT_DOUBLE_EQ(m.device.products[0].points[0].seconds, 64e-6 / 3);
}

TEST(Combined, HasNoPlacementsIfTheCoresStayed) {
  const Machine m = combined(calibrated(3, near_s), calibrated(1, 1.1 * near_s));
  EXPECT_TRUE(m.placements.empty());
  EXPECT_DOUBLE_EQ(m.node.core_to_core_s, 1.05 * near_s);
  EXPECT_DOUBLE_EQ(kernel_s(m.device.streams), 4e-6);
}

// Tables of other sizes have no means over placements.
TEST(Combined, LeavesOutAPlacementWithOtherTables) {
  Machine far = calibrated(3, far_s);
  far.device.streams[0].points.push_back({2000, 1, 1e-6});
  EXPECT_TRUE(combined(calibrated(1, near_s), far).placements.empty());
}

}  // namespace
}  // namespace shardmark::test::combine_test
