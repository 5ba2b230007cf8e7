// SPDX-License-Identifier: Apache-2.0
// Rules of the volume between nodes: what a group within a node sends does not count, and what
// groups across nodes send counts once per node, or once per rank if all ranks receive different
// parts. A plan without reuse and prefetch sends what the ZeRO++ paper (arXiv 2306.10209) says.
#include <gtest/gtest.h>

#include <core/plan/interpret/node_volume.hpp>
#include <core/plan/interpret/volume.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::node_volume_test {
namespace {

constexpr int world = 8;

// Parameters are fetched in forward and again in backward, and are large enough that scales and
// gradients of one dimension hardly count.
Deck zeropp_deck(bool weights, std::int64_t block, bool gradients) {
  Deck d = quantizable_deck(1024);
  PrecisionSpec& p = d.zero.precision;
  p.model = p.comm = p.grad_accum = Dtype::fp16;
  ZeroKnobs& knobs = d.zero.knobs;
  knobs.max_reuse_distance = knobs.prefetch_bucket_size = knobs.param_persistence_threshold = 0;
  knobs.quantized_weights = weights;
  knobs.hpz_partition_size = block;
  knobs.quantized_gradients = gradients;
  d.machine.ranks_per_node = 4;
  return d;
}

NodeVolume of(const Deck& d, std::int64_t accumulation = 1) {
  const auto volume =
      volume_between_nodes(program(d, world, 3, accumulation), d, d.machine.ranks_per_node);
  EXPECT_TRUE(volume);
  return volume.value_or(NodeVolume{});
}

TEST(NodeVolume, IsThatOfThePaper) {
  struct Case {
    bool weights;
    std::int64_t block;
    bool gradients;
    double want;
  };
  for (const Case& c : {Case{false, 1, false, 3},
                        {true, 1, false, 2},
                        {false, 4, false, 2},
                        {true, 4, false, 1.5},
                        {false, 1, true, 2.25},
                        {true, 1, true, 1.25},
                        {true, 2, true, 0.75},
                        {true, 4, true, 0.75}}) {
    SCOPED_TRACE(c.want);
    const NodeVolume v = of(zeropp_deck(c.weights, c.block, c.gradients));
    EXPECT_EQ(v.theory, c.want);
    EXPECT_EQ(v.theory_of_zero3, 3);
    EXPECT_NEAR(v.per_parameter, c.want, 0.01);
    EXPECT_EQ(v.nodes, 2);
    EXPECT_EQ(v.ranks_per_node, 4);
  }
}

TEST(NodeVolume, OfSeveralMicroBatchesGathersOnceWithSecondaryCopies) {
  const NodeVolume v = of(zeropp_deck(true, 4, true), 3);
  EXPECT_EQ(v.theory, 0.5 + 3 * 0.25);
  EXPECT_EQ(v.theory_of_zero3, 9);
  EXPECT_NEAR(v.per_parameter, *v.theory, 0.01);
}

// Secondary copies in a block of several nodes save nothing between them.
TEST(NodeVolume, OfABlockOfNodesIsThatOfTheWorld) {
  const NodeVolume v = of(zeropp_deck(false, 8, false));
  EXPECT_EQ(v.theory, 3);
  EXPECT_NEAR(v.per_parameter, 3, 0.01);
}

TEST(NodeVolume, CountsAnAllReduceTwiceAndAWorldOnce) {
  Deck d = deepspeed_deck(1);
  d.machine.ranks_per_node = 4;
  const Program p = program(d, world, 0);
  const NodeVolume v = of(d);
  double bytes = 0;
  for (const auto& [op, traffic] : steady_volume(p))
    bytes += (op == Op::all_reduce ? 2 : 1) * static_cast<double>(traffic.bytes);
  EXPECT_EQ(v.bytes, bytes);
  EXPECT_FALSE(v.theory);
}

// Ranks that exchange parts receive different ones, whether or not others of their node take part.
TEST(NodeVolume, CountsAnAllToAllOncePerRank) {
  const Deck d = zeropp_deck(false, 1, true);
  Program p = program(d, world, 3);
  const double among_strides = volume_between_nodes(p, d, 4)->bytes;
  ASSERT_EQ(p.groups.back().name, "nodes");
  p.groups.back().ranks.clear();  // the world
  EXPECT_EQ(volume_between_nodes(p, d, 4)->bytes, among_strides);
}

TEST(NodeVolume, NeedsSeveralWholeNodes) {
  Deck d = deepspeed_deck(3);
  const auto volume = [&](std::int64_t given, int found) {
    d.machine.ranks_per_node = given;
    return volume_between_nodes(program(d, 6, 0), d, found);
  };
  EXPECT_FALSE(volume(0, 1)) << "nobody said how many ranks a node has";
  EXPECT_FALSE(volume(0, 6)) << "one node";
  EXPECT_FALSE(volume(4, 2)) << "no whole number of nodes";
  EXPECT_TRUE(volume(0, 3));
  EXPECT_EQ(volume(2, 3)->nodes, 3) << "the deck has the last word";
  EXPECT_EQ(volume(1, 6)->nodes, 6);
}

}  // namespace
}  // namespace shardmark::test::node_volume_test
