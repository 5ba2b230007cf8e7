// SPDX-License-Identifier: Apache-2.0
// Rules of the back-end `node` beyond those of all back-ends: groups get the back-end that suits
// their ranks, sums have the order that is promised, only bytes of other nodes cross the network,
// and a mismatch of collectives is detected.
#include <gtest/gtest.h>

#include <comm/node/node_communicator.hpp>
#include <tests/comm/mpi/mpi_counter.hpp>
#include <tests/support/array.hpp>
#include <tests/support/message_of.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::node_test {
namespace {

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

// 1e8 + 1 is 1e8 in fp32, so the order of the additions shows in the sum, whatever the pieces are.
TEST(Node, native_sums_begin_in_the_nodes_and_ordered_ones_follow_the_ranks) {
  if (world_size() != 4) GTEST_SKIP() << "needs two nodes with two ranks each";
  const float values[] = {1e8F, 1, -1e8F, 1};
  constexpr std::int64_t elems = 3000;
  for (const Reductions reductions : {Reductions::native, Reductions::ordered})
    for (const std::int64_t piece : {1 << 8, 1 << 20}) {
      CommOptions options = make_options(reductions);
      options.node.least_piece_bytes = piece;
      const auto comm = make_world(options, {Backend::node, Placement::halves});
      std::vector<float> data(elems, values[comm->rank()]);
      Collective c;
      c.op = Op::all_reduce, c.reduction = Reduction::sum, c.elems = elems;
      c.send = c.recv = data.data();
      run(*comm, c);
      const float sum = reductions == Reductions::native ? 0.0F : 1.0F;
      EXPECT_EQ(data, std::vector<float>(elems, sum)) << "pieces of at least " << piece;
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
