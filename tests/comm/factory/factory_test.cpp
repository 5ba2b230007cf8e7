// SPDX-License-Identifier: Apache-2.0
// The back-end is chosen at run time. Also tests the check of MPI errors and the search for the
// node.
#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>

#include <comm/factory/make_communicator.hpp>
#include <tests/support/message_of.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::factory_test {
namespace {

TEST(Factory, chooses_at_run_time) {
  const CommOptions options = make_options();
  const int n = world_size();
  EXPECT_EQ(make_communicator(Backend::automatic, MPI_COMM_WORLD, options)->backend(),
            n > 1 ? Backend::shm : Backend::self);
  EXPECT_EQ(make_communicator(Backend::shm, MPI_COMM_WORLD, options)->backend(), Backend::shm);
  EXPECT_EQ(make_communicator(Backend::mpi, MPI_COMM_WORLD, options)->backend(), Backend::mpi);
  EXPECT_EQ(make_communicator(Backend::self, MPI_COMM_SELF, options)->backend(), Backend::self);
  EXPECT_EQ(
      message_of([&] { make_communicator(Backend::nccl, MPI_COMM_WORLD, options); }),
      "comm.backend = nccl: this build has no NCCL: choose auto or mpi, or configure with a Kokkos "
      "that was built for CUDA and -DSHARDMARK_ENABLE_NCCL=ON");
  if (n > 1) {
    EXPECT_EQ(message_of([&] { make_communicator(Backend::self, MPI_COMM_WORLD, options); }),
              "comm.backend = self: " + std::to_string(n) +
                  " ranks: must be one: start one rank, or choose shm or mpi");
  }
}

TEST(CheckMpi, the_message_has_the_place_and_the_text_of_MPI) {
  const std::string what = message_of([] { SHARDMARK_MPI(MPI_ERR_RANK); });
  EXPECT_EQ(what.rfind("factory_test.cpp:", 0), 0u) << what;
  EXPECT_NE(what.find("rank"), std::string::npos) << what;
}

TEST(FindNode, counts_the_ranks_of_this_machine) {
  const Node node = find_node(MPI_COMM_WORLD);
  EXPECT_EQ(node.ranks, world_size());
  EXPECT_EQ(node.local_rank, world_rank());
  EXPECT_GE(node.cores, node.own_cores);
  EXPECT_FALSE(node.host.empty());
  EXPECT_FALSE(node.own_mask.empty());
}

TEST(FindNode, spreads_ranks_that_share_cores_evenly) {
  cpu_set_t unbound;
  ASSERT_EQ(sched_getaffinity(0, sizeof unbound, &unbound), 0);
  Node node = find_node(MPI_COMM_WORLD);
  const Node before = node;
  spread_over_cores(node);
  const bool spreads =
      before.unbound && before.ranks > before.cores && before.ranks % before.cores == 0;
  EXPECT_EQ(node.own_cores, spreads ? 1 : before.own_cores);
  if (!spreads) {
    EXPECT_EQ(node.own_mask, before.own_mask);
    return;
  }
  int own = std::stoi(node.own_mask);
  std::vector<int> cores(static_cast<std::size_t>(world_size()));
  SHARDMARK_MPI(MPI_Allgather(&own, 1, MPI_INT, cores.data(), 1, MPI_INT, MPI_COMM_WORLD));
  for (const int core : cores)
    EXPECT_EQ(std::count(cores.begin(), cores.end(), core), before.ranks / before.cores);
  EXPECT_NE(cores[0], cores[1]) << "neighbours";
  EXPECT_EQ(find_node(MPI_COMM_WORLD).own_mask, node.own_mask) << "it is bound";
  EXPECT_EQ(sched_setaffinity(0, sizeof unbound, &unbound), 0);
}

}  // namespace
}  // namespace shardmark::test::factory_test
