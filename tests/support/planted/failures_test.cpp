// SPDX-License-Identifier: Apache-2.0
// Tests that fail on purpose, which check.bash runs one by one.
#include <stdexcept>

#include <gtest/gtest.h>
#include <mpi.h>

#include <tests/support/world_rank.hpp>

namespace shardmark::test::failures_test {
namespace {

TEST(Planted, AssertOnOneRank) {
  ASSERT_NE(world_rank(), 1) << "planted";
  MPI_Barrier(MPI_COMM_WORLD);
}
TEST(Planted, ExceptionOnOneRank) {
  if (world_rank() == 0) throw std::runtime_error("planted");
  MPI_Barrier(MPI_COMM_WORLD);
}
// What the failing rank leaves waits for the others, and they wait for that rank.
TEST(Planted, AssertBeforeACollectiveEnd) {
  struct Together {
    ~Together() { MPI_Barrier(MPI_COMM_WORLD); }
  } const together;
  ASSERT_NE(world_rank(), 1) << "planted";
  MPI_Recv(nullptr, 0, MPI_BYTE, 1, 77, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
TEST(Planted, AssertOnAllRanks) {
  MPI_Barrier(MPI_COMM_WORLD);
  ASSERT_LT(world_size(), 0) << "planted";
}
TEST(Planted, ExpectOnOneRank) {
  EXPECT_NE(world_rank(), 2) << "planted";
  MPI_Barrier(MPI_COMM_WORLD);
}
/// Runs after each of the tests above if all ranks have left it.
TEST(Sound, AllRanksArrive) {
  ASSERT_EQ(MPI_Barrier(MPI_COMM_WORLD), MPI_SUCCESS);
}

}  // namespace
}  // namespace shardmark::test::failures_test
