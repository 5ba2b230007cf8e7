// SPDX-License-Identifier: Apache-2.0
// Rules: what is sent is received, ranks without flows do nothing, flows end although ranks do not
// end at the same time, and collectives beside the traffic give what they give without it.
#include <vector>

#include <gtest/gtest.h>

#include <comm/decorators/congesting.hpp>
#include <comm/factory/make_communicator.hpp>
#include <comm/mpi/background_traffic.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <tests/support/world_rank.hpp>

namespace shardmark::test::background_traffic_test {
namespace {

constexpr std::int64_t message = 100'000;

std::vector<int> all_ranks(int world) {
  std::vector<int> ranks;
  for (int r = 0; r < world; ++r) ranks.push_back(r);
  return ranks;
}

std::int64_t sum_over_ranks(std::int64_t mine) {
  std::int64_t all = 0;
  SHARDMARK_MPI(MPI_Allreduce(&mine, &all, 1, MPI_INT64_T, MPI_SUM, MPI_COMM_WORLD));
  return all;
}

TEST(BackgroundTraffic, moves_messages_of_each_flow_and_ends) {
  const int rank = world_rank(), world = world_size();
  for (const TrafficPattern pattern : all_values<TrafficPattern>) {
    const std::vector<Flow> all = flows(pattern, all_ranks(world));
    BackgroundTraffic traffic(MPI_COMM_WORLD, all, message, {});
    traffic.begin();
    for (int i = 0; i < 100 * (rank + 1); ++i) traffic.progress();
    traffic.end({});
    EXPECT_EQ(traffic.received_bytes() % message, 0);
    // Each flow sends when it begins.
    std::int64_t here = 0;
    for (const Flow& f : all) here += f.to == rank ? 1 : 0;
    EXPECT_GE(traffic.received_bytes(), here * message);
    const bool takes_part = traffic.buffer_bytes() > 0;
    EXPECT_EQ(traffic.buffer_bytes(), takes_part ? (1 + here) * message : 0);
    EXPECT_GE(sum_over_ranks(traffic.received_bytes()),
              static_cast<std::int64_t>(all.size()) * message);
  }
}

TEST(BackgroundTraffic, leaves_other_ranks_alone) {
  const int rank = world_rank(), world = world_size();
  if (world < 3) GTEST_SKIP() << "two ranks of three or more";
  BackgroundTraffic traffic(MPI_COMM_WORLD, flows(TrafficPattern::pairs, {0, 2}), message, {});
  traffic.begin();
  traffic.progress();
  traffic.end({});
  EXPECT_EQ(traffic.received_bytes() > 0, rank == 0 || rank == 2);
  EXPECT_EQ(traffic.buffer_bytes() > 0, rank == 0 || rank == 2);
}

TEST(BackgroundTraffic, sends_no_faster_than_it_may) {
  const int world = world_size();
  if (world < 2) GTEST_SKIP() << "two ranks or more";
  // One message, and the next one only after a day.
  BackgroundTraffic traffic(MPI_COMM_WORLD, flows(TrafficPattern::ring, all_ranks(world)), message,
                            1.0);
  traffic.begin();
  for (int i = 0; i < 1000; ++i) traffic.progress();
  traffic.end({});
  EXPECT_EQ(traffic.received_bytes(), message);
}

TEST(BackgroundTraffic, changes_no_collective) {
  const int rank = world_rank(), world = world_size();
  for (const Backend backend : {Backend::mpi, Backend::shm}) {
    BackgroundTraffic traffic(MPI_COMM_WORLD, flows(TrafficPattern::all_to_all, all_ranks(world)),
                              message, {});
    CongestingCommunicator comm(make_communicator(backend, MPI_COMM_WORLD, {}), traffic);
    const auto half = comm.split(rank % 2, rank);
    traffic.begin();
    for (int i = 0; i < 50; ++i) {
      std::vector<std::int64_t> values(1000, rank + i);
      Collective c;
      c.op = Op::broadcast, c.dtype = Dtype::int64, c.root = i % world;
      c.elems = std::ssize(values), c.send = c.recv = values.data();
      run(comm, c);
      EXPECT_EQ(values.back(), i % world + i);
      std::int64_t mine = rank;
      std::vector<std::int64_t> gathered(static_cast<std::size_t>(half->size()));
      half->exchange(&mine, gathered.data(), sizeof mine);
      for (std::size_t k = 0; k < gathered.size(); ++k)
        EXPECT_EQ(gathered[k], rank % 2 + 2 * static_cast<std::int64_t>(k));
    }
    traffic.end({});
    EXPECT_EQ(traffic.received_bytes() >= message, world > 1);
  }
}

}  // namespace
}  // namespace shardmark::test::background_traffic_test
