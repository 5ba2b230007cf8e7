// SPDX-License-Identifier: Apache-2.0
// Rules of the partitions: how each schedule pads and cuts parameters, and that every element has
// one owner. The sizes of the small models are worked out by hand.
#include <set>

#include <gtest/gtest.h>

#include <core/plan/partition/flat_groups.hpp>
#include <core/plan/partition/gradient_groups.hpp>
#include <core/plan/partition/sub_groups.hpp>
#include <core/plan/partition/weight_groups.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::partitions_test {
namespace {

using Elems = std::vector<std::int64_t>;
using Ids = std::vector<int>;

ModelShape model_of(const Elems& tensors) {
  ModelSpec spec;
  spec.family = Family::list;
  for (std::size_t i = 0; i < tensors.size(); ++i)
    spec.modules.push_back({"m" + std::to_string(i), {tensors[i]}});
  return build_model_shape(spec);
}

TEST(Partition, EveryUnitIsPaddedToTheWorldSizeAndCutEvenly) {
  const ModelShape m = build_model_shape(gpt2_deck(0).model);
  for (int world : {1, 2, 3, 7, 64}) {
    const Partition p = build_partition(m, world, 3);
    for (std::size_t u = 0; u < m.units.size(); ++u) {
      EXPECT_GE(p.units[u].padded, m.units[u].elems);
      EXPECT_LT(p.units[u].padded, m.units[u].elems + world);
      EXPECT_EQ(p.units[u].shard * world, p.units[u].padded);
    }
    EXPECT_EQ(p.per_rank * world, p.padded);
    EXPECT_EQ(build_partition(m, world, 0).per_rank, m.elems);
  }
}

// The picture in flat_groups.hpp: 5 and 4 elements on two ranks.
TEST(FlatGroups, AreCutRegardlessOfTensors) {
  const ModelShape m = model_of({5, 4});
  const FlatGroups flat(m, {}, 4, 2);
  ASSERT_EQ(flat.groups().size(), 1U);
  EXPECT_EQ(flat.groups()[0].padded, 12) << "a multiple of twice the ranks";
  EXPECT_EQ(flat.groups()[0].partition, 6);
  EXPECT_EQ(flat.owners(0).size(), 1U);
  const auto owners = flat.owners(1);
  ASSERT_EQ(owners.size(), 2U);
  EXPECT_EQ(owners[0].elems, 1);
  EXPECT_EQ(owners[1].first, 1);
  EXPECT_EQ(owners[1].elems, 3);
}

TEST(FlatGroups, GiveEachElementOneOwner) {
  const ModelShape m = build_model_shape(gpt2_deck(0).model);
  for (const int world : {1, 2, 3, 7, 64})
    for (const bool dealt : {false, true}) {
      ZeroKnobs knobs;
      knobs.round_robin_gradients = dealt;
      const FlatGroups flat(m, knobs, 4, world);
      for (int p = 0; p < static_cast<int>(m.params.size()); ++p) {
        std::int64_t next = 0;
        for (const OwnedSlice& slice : flat.owners(p)) {
          EXPECT_EQ(slice.first, next);
          EXPECT_EQ(flat.owned(p, slice.rank).elems, slice.elems);
          next += slice.elems;
        }
        EXPECT_EQ(next, m.params[static_cast<std::size_t>(p)].elems);
      }
    }
}

TEST(FlatGroups, AreDealtAndAlignedAsTheKnobsSay) {
  const ModelShape m = model_of({3, 3, 3, 3, 3});
  const auto layout = [&](bool dealt, bool aligned, std::int64_t bytes) {
    ZeroKnobs knobs;
    knobs.round_robin_gradients = dealt, knobs.parameter_alignment = aligned;
    std::pair<Ids, Elems> found;
    const FlatGroups flat(m, knobs, bytes, 2);
    for (const FlatParam& p : flat.groups()[0].layout)
      found.first.push_back(p.param), found.second.push_back(p.offset);
    return found;
  };
  EXPECT_EQ(layout(false, false, 4), std::pair(Ids{0, 1, 2, 3, 4}, Elems{0, 3, 6, 9, 12}));
  EXPECT_EQ(layout(true, false, 4), std::pair(Ids{0, 2, 4, 1, 3}, Elems{0, 3, 6, 9, 12}));
  EXPECT_EQ(layout(false, true, 4).second, (Elems{0, 4, 8, 12, 16})) << "16 bytes";
  EXPECT_EQ(layout(false, true, 2).second, (Elems{0, 8, 16, 24, 32})) << "16 bytes";
}

// Shards of 3, 2 and 3 elements on two ranks.
TEST(SubGroups, CloseOnceTheyAreFull) {
  const ModelShape m = model_of({5, 4, 6});
  const auto groups = [&](std::int64_t size) {
    std::vector<Ids> found;
    const SubGroups all(m, size, 2);
    for (const SubGroup& g : all.groups()) found.push_back(g.params);
    return found;
  };
  EXPECT_EQ(groups(1), (std::vector<Ids>{{0}, {1}, {2}}));
  EXPECT_EQ(groups(3), (std::vector<Ids>{{0}, {1, 2}}));
  EXPECT_EQ(groups(4), (std::vector<Ids>{{0, 1}, {2}}));
  EXPECT_EQ(groups(5), (std::vector<Ids>{{0, 1}, {2}}));
  EXPECT_EQ(groups(6), (std::vector<Ids>{{0, 1, 2}}));
  const SubGroups one(m, 100, 2);
  EXPECT_EQ(one.shard(0), 3);
  EXPECT_EQ(one.offset_of(2), 5);
  EXPECT_EQ(one.groups()[0].elems, 8) << "with padding";
}

TEST(QuantizedGroups, OfWeightsAreTheLargestDivisor) {
  for (const auto& [elems, group] : {std::pair<std::int64_t, std::int64_t>{0, 0},
                                     {8, 8},
                                     {12, 0},
                                     {8000, 8000},
                                     {8008, 1144},
                                     {16000, 8000},
                                     {24008, 8}})
    EXPECT_EQ(weight_group_elems(elems), group) << elems;
}

TEST(QuantizedGroups, OfGradientsFollowTheirShape) {
  const struct {
    Elems shape;
    std::int64_t groups;
    bool possible;
    const char* why;
  } cases[] = {
      {{1024}, 0, true, "one dimension"},
      {{3, 5}, 0, true, "2 x ranks do not divide it"},
      {{64, 128}, 128, true, "the larger size"},
      {{2, 4}, 4, false, "2 elements per group"},
      {{2, 2, 16}, 4, true, "as many as ranks"},
      {{6, 6, 16}, 6, false, "the ranks do not divide the groups"},
      {{4, 1, 40960}, 4, true, "the largest group"},
      {{4, 1, 40968}, 4, false, "too large a group"},
  };
  for (const auto& c : cases) {
    std::int64_t elems = 1;
    for (const std::int64_t n : c.shape) elems *= n;
    const GradientGroups g = gradient_groups(c.shape, elems, 4);
    EXPECT_EQ(g.groups, c.groups) << c.why;
    EXPECT_EQ(g.possible, c.possible) << c.why;
    EXPECT_EQ(g.groups * g.group_elems, g.groups > 0 ? elems : 0) << c.why;
  }
}

}  // namespace
}  // namespace shardmark::test::partitions_test
