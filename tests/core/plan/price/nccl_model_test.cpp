// SPDX-License-Identifier: Apache-2.0
// Rule: the model of collectives gives what NCCL's own tuning model gives, in time, algorithm and
// protocol, for rings, trees and NVLS on one node and on several. The figures were computed with an
// independent implementation of src/graph/tuning.cc.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <core/plan/price/collective_time.hpp>
#include <core/plan/price/event_costs.hpp>
#include <core/plan/price/nccl_model.hpp>

namespace shardmark::test::nccl_model_test {
namespace {

constexpr double gb = 1e9, kib = 1024, mib = 1024 * kib;

struct Cluster {
  NcclTopology topology;
  int ranks, nodes;
};
Cluster hopper() {
  return {{GpuGeneration::hopper, {24, 15 * gb}, {24, 15 * gb}, {16, 20.6 * 18 / 16 * gb}}, 8, 1};
}
Cluster ampere() {
  return {{GpuGeneration::ampere, {24, 10 * gb}, {24, 10 * gb}, {}}, 8, 1};
}
Cluster four_blackwells() {
  return {{GpuGeneration::blackwell, {8, 48 * gb}, {8, 48 * gb}, {}, false, 10e-6}, 32, 4};
}
Cluster two_voltas() {
  return {{GpuGeneration::volta, {12, 10 * gb}, {12, 10 * gb}, {}}, 32, 2};
}
Cluster sixteen_amperes() {
  return {{GpuGeneration::ampere, {8, 24 * gb}, {8, 24 * gb}, {}, true, 2e-6}, 128, 16};
}

struct Known {
  Cluster cluster;
  Op op;
  double bytes, us;
  const char* choice;
};
const std::vector<Known>& known() {
  static const std::vector<Known> all{
      {hopper(), Op::all_reduce, 4 * kib, 15.0508, "ring/LL"},
      {hopper(), Op::all_reduce, 16 * mib, 74.6819, "nvls/Simple"},
      {hopper(), Op::all_gather, 16 * mib, 71.6239, "ring/LL128"},
      {hopper(), Op::reduce_scatter, 1024 * mib, 2641.9892, "ring/Simple"},
      {ampere(), Op::all_reduce, 16 * mib, 173.5716, "ring/LL128"},
      {ampere(), Op::all_gather, mib, 21.2618, "ring/LL"},
      {ampere(), Op::all_gather, 128 * mib, 521.5355, "ring/Simple"},
      {four_blackwells(), Op::all_reduce, 4 * kib, 75.7737, "tree/LL"},
      {four_blackwells(), Op::all_reduce, mib, 127.3453, "tree/LL128"},
      {four_blackwells(), Op::all_reduce, 1024 * mib, 5981.5627, "ring/Simple"},
      {four_blackwells(), Op::all_gather, 128 * mib, 515.5232, "ring/LL128"},
      {two_voltas(), Op::all_reduce, 16 * mib, 428.7193, "tree/LL128"},
      {two_voltas(), Op::all_reduce, 1024 * mib, 17793.2165, "ring/Simple"},
      {two_voltas(), Op::reduce_scatter, 256 * kib, 45.8116, "ring/LL"},
      {sixteen_amperes(), Op::all_reduce, 128 * mib, 2126.2525, "tree/LL128"},
      {sixteen_amperes(), Op::all_gather, 4 * kib, 301.3139, "ring/LL"},
      {sixteen_amperes(), Op::all_gather, 1024 * mib, 6499.1147, "ring/Simple"}};
  return all;
}

TEST(NcclModel, AgreesWithNcclsOwnTuning) {
  for (const Known& k : known()) {
    const NcclEstimate e =
        nccl_estimate(k.op, k.bytes, k.cluster.topology, k.cluster.ranks, k.cluster.nodes);
    const std::string choice =
        std::string(to_string(e.algorithm)) + "/" + std::string(to_string(e.protocol));
    EXPECT_NEAR(e.seconds * 1e6 / k.us, 1, 1e-4) << to_string(k.op) << " " << k.bytes;
    EXPECT_EQ(choice, k.choice) << to_string(k.op) << " " << k.bytes;
  }
}

TEST(NcclModel, TakesLongerForMoreBytesAndMoreNodes) {
  for (const Op op :
       {Op::all_reduce, Op::all_gather, Op::reduce_scatter, Op::reduce, Op::broadcast}) {
    double before = 0;
    for (double bytes = 1024; bytes < 4096 * mib; bytes *= 4) {
      const double s = nccl_estimate(op, bytes, ampere().topology, 64, 8).seconds;
      EXPECT_GT(s, before * 0.999) << to_string(op) << " " << bytes;
      before = s;
    }
    EXPECT_GT(nccl_estimate(op, 64 * mib, ampere().topology, 1024, 128).seconds,
              nccl_estimate(op, 64 * mib, ampere().topology, 64, 8).seconds);
  }
}

// Two nodes of four ranks: 100 GB/s within a node, 40 GB/s between nodes for all ranks together.
Machine two_levels() {
  Machine m;
  NetworkLevel inside, outside;
  inside.link.bytes_per_s = 100 * gb;
  outside.between_nodes = true;
  outside.link.bytes_per_s = 10 * gb;
  outside.node_bytes_per_s = 40 * gb;
  m.network = {inside, outside};
  return m;
}

TEST(Collectives, ARingAcrossNodesUsesAllLinksOfANode) {
  const Machine m = two_levels();
  const CollectiveShape shape{Op::all_gather, Dtype::fp32, 2'000'000'000, 8, 4, 4};
  // 8 GB x 7/8 over 40 GB/s.
  EXPECT_NEAR(collective_time(m, shape).transfer_s, 7.0 / 40, 1e-9);
}

TEST(Collectives, AnAllToAllSendsEachRanksPartsForOtherNodes) {
  const Machine m = two_levels();
  const CollectiveShape shape{Op::all_to_all, Dtype::fp32, 2'000'000'000, 8, 4, 4};
  // Each rank sends half of its 8 GB to the other node, so the 4 ranks of a node send 16 GB over
  // its 40 GB/s.
  EXPECT_NEAR(collective_time(m, shape).transfer_s, 16.0 / 40, 1e-9);
  const CollectiveShape inside{Op::all_to_all, Dtype::fp32, 2'000'000'000, 4, 4, 4};
  EXPECT_NEAR(collective_time(m, inside).transfer_s, 8.0 * 3 / 4 / 100, 1e-9);
}

TEST(Collectives, GroupsThatCommunicateTogetherShareANodesLinks) {
  const Machine m = two_levels();
  const CollectiveShape one_of_four{Op::all_gather, Dtype::fp32, 2'000'000'000, 2, 1, 4};
  // 8 GB x 1/2 over a quarter of 40 GB/s.
  EXPECT_NEAR(collective_time(m, one_of_four).transfer_s, 4.0 / 10, 1e-9);
}

TEST(Collectives, MeasuredPointsMoveToOtherRanksByTheDifferenceOfTheModel) {
  Machine m = two_levels();
  NetworkLevel& outside = m.network[1];
  outside.nccl = ampere().topology;
  outside.node_bytes_per_s = 240 * gb;
  outside.link.bytes_per_s = 60 * gb;
  m.network[0].link.bytes_per_s = 240 * gb;
  const CollectiveShape there{Op::all_gather, Dtype::fp32, 16'777'216, 8, 4, 4},
      here{Op::all_gather, Dtype::fp32, 16'777'216, 64, 4, 4};
  const auto total = [](const CollectiveTime& t) { return t.latency_s + t.transfer_s; };
  const double model_there = total(collective_time(m, there)),
               model_here = total(collective_time(m, here));
  CollectiveTimes measured;
  measured.op = Op::all_gather;
  measured.ranks = 8;
  measured.ranks_per_node = 4;
  measured.points = {{1024, 2 * model_there / 10}, {67'108'864, 2 * model_there}};
  outside.collectives = {measured};
  EXPECT_NEAR(total(collective_time(m, there)), 2 * model_there, 1e-9);
  EXPECT_NEAR(total(collective_time(m, here)), 2 * model_there + model_here - model_there, 1e-9);
}

// Measured on 2 nodes of 2 ranks, asked on 3: a node sends 2/3 of the array instead of a half if
// its ranks add up among themselves first, and a rank 5/6 instead of 3/4 in a ring of all ranks.
TEST(Collectives, TheBackEndNodeCommunicatesAmongNodes) {
  for (const bool node : {true, false}) {
    Machine m = two_levels();
    NetworkLevel& outside = m.network[1];
    outside.library = node ? "node" : "mpi";
    const CollectiveShape two{Op::all_gather, Dtype::fp32, 250'000'000, 4, 2, 2},
        three{Op::all_gather, Dtype::fp32, 250'000'000, 6, 2, 2};
    const double grows = node ? (2.0 / 3) / (1.0 / 2) : (5.0 / 6) / (3.0 / 4);
    const auto growth = [&] {
      return collective_time(m, three).transfer_s / collective_time(m, two).transfer_s;
    };
    EXPECT_NEAR(growth(), grows, 1e-9);
    CollectiveTimes measured;
    measured.op = Op::all_gather;
    measured.ranks = 4;
    measured.ranks_per_node = 2;
    measured.points = {{64, 1e-5}, {1e9, 0.5}};
    outside.collectives = {measured};
    EXPECT_NEAR(growth(), grows, 1e-9);
    EXPECT_NEAR(collective_time(m, three).latency_s, (node ? 2 : 5.0 / 3) * 1e-5, 1e-9);
  }
}

// An array that a rank gathers into the place of its own part needs no copy of that part.
TEST(Collectives, ThoseInPlaceHavePointsOfTheirOwn) {
  Machine m;
  NetworkLevel& level = m.network.emplace_back();
  CollectiveShape shape{.op = Op::all_gather, .elems = 256, .ranks = 2, .ranks_per_node = 2};
  level.collectives.push_back({.op = Op::all_gather, .points = {{1024, 4e-6}}});
  shape.in_place = true;
  EXPECT_EQ(collective_time(m, shape).latency_s, 4e-6) << "no others were measured";
  level.collectives.push_back({.op = Op::all_gather, .in_place = true, .points = {{1024, 3e-6}}});
  EXPECT_EQ(collective_time(m, shape).latency_s, 3e-6);
  shape.in_place = false;
  EXPECT_EQ(collective_time(m, shape).latency_s, 4e-6);
}

TEST(Stragglers, TheSlowestOfMoreRanksIsSlower) {
  EXPECT_EQ(slowest_draw(1), 0);
  EXPECT_NEAR(slowest_draw(2), 0.5642, 0.03);  // 1/sqrt(pi)
  EXPECT_NEAR(slowest_draw(100), 2.5076, 0.02);
  EXPECT_NEAR(slowest_draw(1000), 3.2414, 0.02);
  Machine m;
  EXPECT_EQ(straggler_factor(m, 1024, 8), 1);
  m.jitter.rank_relative_sd = 0.01;
  EXPECT_EQ(straggler_factor(m, 8, 8), 1);
  EXPECT_NEAR(straggler_factor(m, 1000, 1), 1.0324, 0.0005);
}

TEST(Stragglers, TheLastRankOfANodeEndsLaterByWhatWasMeasured) {
  const RankSkew skew{.ranks = 2, .points = {{1e-3, 1e-4}, {4e-3, 2e-4}}};
  EXPECT_EQ(rank_skew_s({}, 2, 1e-3), 0);
  EXPECT_EQ(rank_skew_s(skew, 1, 1e-3), 0);
  EXPECT_NEAR(rank_skew_s(skew, 2, 2e-3), 1.4142e-4, 1e-8);
  EXPECT_NEAR(rank_skew_s(skew, 2, 0.5e-3), 0.5e-4, 1e-10) << "no work, no skew";
  EXPECT_NEAR(rank_skew_s(skew, 2, 8e-3), 4e-4, 1e-10) << "beyond what was measured in proportion";
  EXPECT_NEAR(rank_skew_s(skew, 8, 1e-3), 1e-4 * slowest_draw(8) / slowest_draw(2), 1e-10);
}

}  // namespace
}  // namespace shardmark::test::nccl_model_test
