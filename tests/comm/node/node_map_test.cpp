// SPDX-License-Identifier: Apache-2.0
// Rules of what `node` decides without a message: every element has one driver on each node, pieces
// cover an array without a gap, and contributions are kept apart where the order of a sum is
// promised.
#include <gtest/gtest.h>

#include <comm/node/node_links.hpp>
#include <comm/node/node_map.hpp>

namespace shardmark::test::node_map_test {
namespace {

// Whatever the nodes are, the rails of the ranks of a node cover an array without a gap, and the
// share of each rank is that of even division.
TEST(NodeMap, every_element_has_one_driver_on_each_node) {
  for (const std::vector<int>& nodes :
       {std::vector{0, 0, 1, 1}, {0, 1, 1, 1}, {0, 0, 1, 1, 1}, {0, 1, 2}, {5, 2, 5, 2, 2, 7}})
    for (const std::int64_t elems : {0, 1, 7, 64, 1001})
      for (int rank = 0; rank < static_cast<int>(nodes.size()); ++rank) {
        const NodeMap map(nodes, rank);
        std::int64_t next = 0;
        for (int k = 0; k < map.locals(); ++k) {
          const Part share = map.share(k, elems);
          EXPECT_EQ(share.first, elems * k / map.locals());
          EXPECT_EQ(share.end(), elems * (k + 1) / map.locals());
          for (const int rail : map.rails_of(k)) {
            EXPECT_EQ(map.rail(rail, elems).first, next);
            EXPECT_EQ(map.driver(map.node(), rail), k);
            next = map.rail(rail, elems).end();
          }
        }
        EXPECT_EQ(next, elems);
      }
}

TEST(NodeMap, has_as_many_rails_as_ranks_of_a_node_if_nodes_are_equal) {
  EXPECT_EQ(NodeMap({0, 0, 1, 1}, 0).rails(), 2);
  EXPECT_EQ(NodeMap({0, 1, 0, 1}, 3).rails(), 2);
  EXPECT_EQ(NodeMap({0, 1, 1, 1}, 0).rails(), 3);
  EXPECT_EQ(NodeMap({0, 0, 1, 1, 1}, 0).rails(), 4);
}

TEST(NodePieces, are_as_many_as_can_be_in_flight_unless_they_become_too_small_or_too_large) {
  const auto rounds = [](std::int64_t kib) {
    Collective c;
    c.op = Op::all_reduce, c.reduction = Reduction::sum, c.elems = kib * 256;
    return plan_node_pieces(c, 4, 2, Reductions::native, {512 << 10, 64 << 10}).rounds;
  };
  EXPECT_EQ(rounds(32), 1u);
  EXPECT_EQ(rounds(128), 2u);
  EXPECT_EQ(rounds(1024), 4u);
  EXPECT_EQ(rounds(8192), 16u);
}

TEST(LinkSpeed, chooses_larger_pieces_for_links_with_more_in_flight) {
  EXPECT_EQ((LinkSpeed{50, 125}.piece_bytes()), 64 << 10);
  EXPECT_EQ((LinkSpeed{50, 1250}.piece_bytes()), 512 << 10);
  EXPECT_EQ((LinkSpeed{1, 100}.piece_bytes()), 16 << 10);
}

TEST(NodeMap, numbers_nodes_by_their_lowest_ranks) {
  const NodeMap map({5, 2, 5, 2, 2, 7}, 3);
  EXPECT_EQ(map.nodes(), 3);
  EXPECT_EQ(map.node(), 1);
  EXPECT_EQ(map.local(), 1);
  EXPECT_EQ(map.ranks(0), (std::vector<int>{0, 2}));
  EXPECT_EQ(map.ranks(1), (std::vector<int>{1, 3, 4}));
  EXPECT_EQ(map.before(2), 5);
  EXPECT_EQ(map.most_locals(), 3);
}

Collective collective(Op op, std::int64_t elems, Dtype dtype = Dtype::fp32) {
  Collective c;
  c.op = op, c.elems = elems, c.dtype = dtype, c.reduction = Reduction::sum;
  return c;
}

constexpr PieceLimits limits{1 << 16, 1 << 10};

TEST(NodePieces, cover_what_is_split_and_fit_a_buffer) {
  for (const Op op : {Op::all_reduce, Op::reduce, Op::broadcast, Op::all_gather, Op::reduce_scatter,
                      Op::all_to_all})
    for (const std::int64_t shard : {1, 7, 1000, 123'457})
      for (const Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp64}) {
        constexpr int size = 6;
        const NodePieces p = plan_node_pieces(collective(op, size * shard, dtype), size, 2,
                                              Reductions::native, limits);
        EXPECT_EQ(p.part_elems, p.by_shard ? shard : size * shard);
        std::int64_t next = 0;
        for (std::uint64_t round = 0; round < p.rounds; ++round) {
          EXPECT_EQ(p.first(round), next);
          EXPECT_GT(p.elems(round), 0);
          EXPECT_LE(p.elems(round) * (p.by_shard ? size : 1) * dtype_bytes(dtype),
                    limits.most_bytes);
          next += p.elems(round);
        }
        EXPECT_EQ(next, p.part_elems);
      }
}

TEST(NodePieces, keep_contributions_apart_where_the_order_of_a_sum_is_promised) {
  const auto apart = [](Op op, Dtype dtype, Reductions reductions) {
    return plan_node_pieces(collective(op, 600, dtype), 6, 2, reductions, limits).rows_of_ranks;
  };
  EXPECT_FALSE(apart(Op::all_reduce, Dtype::fp32, Reductions::native));
  EXPECT_TRUE(apart(Op::all_reduce, Dtype::fp32, Reductions::ordered));
  EXPECT_TRUE(apart(Op::reduce_scatter, Dtype::bf16, Reductions::native));
  EXPECT_TRUE(apart(Op::all_to_all, Dtype::fp32, Reductions::native)) << "nothing is added up";
  EXPECT_FALSE(apart(Op::all_gather, Dtype::bf16, Reductions::ordered));
}

TEST(NodePieces, take_two_steps_only_between_more_than_two_nodes_and_if_they_are_large) {
  const auto two_steps = [](Op op, std::int64_t elems, int nodes) {
    return plan_node_pieces(collective(op, elems), 6, nodes, Reductions::native, limits).two_steps;
  };
  EXPECT_TRUE(two_steps(Op::all_reduce, 60'000, 3));
  EXPECT_TRUE(two_steps(Op::reduce, 60'000, 3));
  EXPECT_FALSE(two_steps(Op::all_reduce, 60'000, 2));
  EXPECT_FALSE(two_steps(Op::all_reduce, 60, 3));
  EXPECT_FALSE(two_steps(Op::reduce_scatter, 60'000, 3));
}

TEST(NodePieces, are_none_where_a_copy_is_enough) {
  const auto rounds = [](Op op, std::int64_t elems, int size) {
    return plan_node_pieces(collective(op, elems), size, size, Reductions::native, limits).rounds;
  };
  EXPECT_EQ(rounds(Op::all_reduce, 100, 1), 0U);
  EXPECT_EQ(rounds(Op::all_reduce, 0, 4), 0U);
  EXPECT_EQ(rounds(Op::barrier, 0, 1), 0U);
  EXPECT_EQ(rounds(Op::barrier, 0, 4), 1U);
}

}  // namespace
}  // namespace shardmark::test::node_map_test
