// SPDX-License-Identifier: Apache-2.0
// Rule: the groups of a rank are those that DeepSpeed makes; each group has its ranks in ascending
// order and the rank itself among them; the groups of one kind divide the world; a block and the
// strides through it divide the partition.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include <core/plan/mesh/mesh.hpp>
#include <tests/support/recorded.hpp>

namespace shardmark::test::mesh_test {
namespace {

using Ranks = std::vector<int>;

TEST(Mesh, HasTheGroupsThatDeepSpeedMakes) {
  int cases = 0;
  for (const Recording& r : recordings("deepspeed_axes.json")) {
    SCOPED_TRACE(r.name);
    ++cases;
    const Mesh mesh(r.world, r.raw.value("rank", 0), r.deck.zero.parallel);
    EXPECT_EQ(mesh.partition_group(), r.raw.at("groups").at("data").get<Ranks>());
    const json& groups = r.raw.at("groups");
    if (groups.contains("tensor")) {
      EXPECT_EQ(mesh.tensor_group(), groups.at("tensor").get<Ranks>());
    }
    if (groups.contains("expert")) {
      EXPECT_EQ(mesh.expert_group(), groups.at("expert").get<Ranks>());
      EXPECT_EQ(mesh.same_experts_group(), groups.at("expert_data").get<Ranks>());
    }
    if (groups.contains("sequence")) {
      EXPECT_EQ(mesh.sequence_group(), groups.at("sequence").get<Ranks>());
    }
  }
  EXPECT_GE(cases, 194);
}

// Beside divided tensors, too: a group of experts has several groups of tensors, or is a part of
// one.
TEST(Mesh, GroupsOfExpertsAreBlocksOfTheWorld) {
  const Mesh larger(8, 5, {.tensor = 2, .expert = 4});
  EXPECT_EQ(larger.expert_group(), (Ranks{4, 5, 6, 7}));
  EXPECT_EQ(larger.same_experts_group(), (Ranks{1, 5}));
  EXPECT_EQ(larger.ranks_of(Holders::all), 4);
  EXPECT_EQ(larger.ranks_of(Holders::of_experts), 2);
  EXPECT_EQ(larger.place_in(Holders::of_experts), 1);
  EXPECT_EQ(larger.expert_rank(), 1);
  const Mesh smaller(8, 6, {.tensor = 4, .expert = 2});
  EXPECT_EQ(smaller.expert_group(), (Ranks{6, 7}));
  EXPECT_EQ(smaller.same_experts_group(), (Ranks{0, 2, 4, 6}));
  EXPECT_EQ(smaller.tensor_group(), (Ranks{4, 5, 6, 7}));
  EXPECT_EQ(smaller.place_in(Holders::of_experts), 3);
}

TEST(Mesh, EveryRankIsInOneGroupOfEachKind) {
  const int world = 12;
  for (const int tensor : {1, 2, 3, 6, 12}) {
    SCOPED_TRACE(tensor);
    std::set<Ranks> partitions, tensors;
    for (int rank = 0; rank < world; ++rank) {
      const Mesh mesh(world, rank, {.tensor = tensor});
      EXPECT_EQ(mesh.partition_group()[static_cast<std::size_t>(mesh.partition_rank())], rank);
      EXPECT_EQ(mesh.tensor_group()[static_cast<std::size_t>(mesh.tensor_rank())], rank);
      partitions.insert(mesh.partition_group());
      tensors.insert(mesh.tensor_group());
    }
    for (const auto& [groups, size] :
         {std::pair{&partitions, world / tensor}, {&tensors, tensor}}) {
      Ranks all;
      for (const Ranks& group : *groups) {
        EXPECT_EQ(group.size(), static_cast<std::size_t>(size));
        EXPECT_TRUE(std::is_sorted(group.begin(), group.end()));
        all.insert(all.end(), group.begin(), group.end());
      }
      std::sort(all.begin(), all.end());
      for (int rank = 0; rank < world; ++rank)
        EXPECT_EQ(all.at(static_cast<std::size_t>(rank)), rank);
      EXPECT_EQ(all.size(), static_cast<std::size_t>(world));
    }
  }
}

TEST(Mesh, CutsThePartitionIntoBlocksAndStrides) {
  const Mesh flat(6, 4, {});
  EXPECT_EQ(flat.partition_ranks(), 6);
  EXPECT_EQ(flat.block(3), (Ranks{3, 4, 5}));
  EXPECT_EQ(flat.stride(3), (Ranks{1, 4}));
  const Mesh divided(8, 5, {.tensor = 2});  // its partition: 1 3 5 7
  EXPECT_EQ(divided.partition_ranks(), 4);
  EXPECT_EQ(divided.block(2), (Ranks{5, 7}));
  EXPECT_EQ(divided.stride(2), (Ranks{1, 5}));
  EXPECT_EQ(divided.block(4), divided.partition_group());
}

TEST(Mesh, RanksThatDivideSamplesShareThePartition) {
  const Mesh mesh(8, 5, {.sequence = 4});
  EXPECT_EQ(mesh.partition_ranks(), 8);
  EXPECT_EQ(mesh.sequence_group(), (Ranks{4, 5, 6, 7}));
  EXPECT_EQ(mesh.sequence_rank(), 1);
  EXPECT_EQ(mesh.data_parts(), 2);
  EXPECT_EQ(mesh.data_part(), 1);
  EXPECT_EQ(mesh.sharing(), 4);
}

TEST(Mesh, RanksWithTheSameExpertsAreAtOnePlaceOfTheirBlocks) {
  for (const bool near : {false, true})
    for (int rank = 0; rank < 8; ++rank) {
      const Mesh mesh(8, rank, {.expert = 2, .same_experts_near = near});
      EXPECT_EQ(mesh.ranks_of(Holders::of_experts), 4);
      EXPECT_EQ(mesh.expert_group().at(static_cast<std::size_t>(mesh.expert_rank())), rank);
      const auto place = static_cast<std::size_t>(mesh.place_in(Holders::of_experts));
      EXPECT_EQ(mesh.same_experts_group().at(place), rank);
      for (const int other : mesh.same_experts_group())
        EXPECT_EQ(mesh.expert_rank_of(other), mesh.expert_rank());
      EXPECT_EQ(mesh.ranks_of(Holders::all), 8);
      EXPECT_EQ(mesh.place_in(Holders::all), rank);
      EXPECT_EQ(mesh.data_parts(), 8) << "each rank has samples of its own";
    }
}

}  // namespace
}  // namespace shardmark::test::mesh_test
