// SPDX-License-Identifier: Apache-2.0
// Rules of the back-end `node` beyond those of all back-ends: every element has one driver on each
// node, groups get the back-end that suits their ranks, and a mismatch of collectives is detected.
#include <gtest/gtest.h>

#include <comm/node/node_communicator.hpp>
#include <core/error.hpp>
#include <tests/comm/mpi/mpi_counter.hpp>
#include <tests/support/array.hpp>
#include <tests/support/message_of.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::node_test {
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
          const Span share = map.share(k, elems);
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

TEST(Node, is_what_auto_chooses_for_several_ranks_on_several_nodes) {
  const int n = world_size();
  CommOptions options = make_options();
  options.node.part = world_rank() < n / 2 ? 0 : 1;
  const auto comm = make_communicator(Backend::automatic, MPI_COMM_WORLD, options);
  EXPECT_EQ(comm->backend(), n == 1 ? Backend::self : n == 2 ? Backend::mpi : Backend::node);
}

TEST(Node, groups_use_what_suits_their_ranks) {
  const int n = world_size(), rank = world_rank();
  if (n != 4) GTEST_SKIP() << "needs two nodes with two ranks each";
  const auto world = make_world(make_options(), {Backend::node, Placement::halves});
  EXPECT_NE(world->about().find("node: 2 nodes, 2 streams"), std::string::npos) << world->about();
  EXPECT_EQ(world->split(rank / 2, rank)->backend(), Backend::shm);
  EXPECT_EQ(world->split(rank % 2, rank)->backend(), Backend::mpi);
  EXPECT_EQ(world->split(rank == 0 ? 0 : 1, rank)->backend(),
            rank == 0 ? Backend::shm : Backend::node);
}

// Only bytes cross between the nodes: the sums are ours, and no call of MPI moves data in a node.
TEST(Node, exchanges_bytes_between_nodes_only) {
  const int n = world_size();
  CommOptions options = make_options();
  options.node.least_piece_bytes = 1 << 10;
  const auto two = make_world(options, {Backend::node, Placement::halves});
  const auto one = make_world(options, {Backend::node, Placement::one_node});
  Array data(Dtype::fp32, 40 * n);
  Collective c;
  c.op = Op::all_reduce, c.reduction = Reduction::sum, c.elems = 40 * n;
  c.send = c.recv = data.at(0);
  reset_mpi_counts();
  run(*one, c);
  EXPECT_EQ(mpi_counts(), (std::map<std::string, std::int64_t>{}));
  run(*two, c);
  const auto calls = mpi_counts();
  if (n > 1) {
    EXPECT_EQ(calls.size(), 1u);
    EXPECT_GE(calls.at("MPI_Iallgatherv"), 1);
  }
}

TEST(Node, ranks_of_a_node_in_different_collectives_get_an_error) {
  if (world_size() < 3) GTEST_SKIP() << "needs a node with two ranks";
  const auto comm = make_world(make_options(), {Backend::node, Placement::one_node});
  Array data(Dtype::fp32, 5 + comm->rank());
  Collective c;
  c.op = Op::all_reduce, c.reduction = Reduction::sum, c.elems = data.elems();
  c.send = c.recv = data.at(0), c.name = "grad.block3";
  const std::string message = message_of([&] { run(*comm, c); });
  const std::string other = comm->rank() == 0 ? "1" : "0";
  EXPECT_EQ(message, "all_reduce grad.block3: rank " + other +
                         " of the group is in another collective: all ranks must start the same "
                         "collectives in the same order");
  mpi_barrier();
}

}  // namespace
}  // namespace shardmark::test::node_test
