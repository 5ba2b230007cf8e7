// SPDX-License-Identifier: Apache-2.0
// Rules of the back-end `shm` beyond those of all back-ends: its memory is bounded, a mismatch of
// collectives is detected, and all ranks agree when memory cannot be shared.
#include <csignal>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <comm/shm/shm_communicator.hpp>
#include <core/error.hpp>
#include <tests/support/array.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::shm_test {
namespace {

std::unique_ptr<ShmCommunicator> make_shm(std::string& why_not) {
  return ShmCommunicator::make(MPI_COMM_WORLD, {}, why_not);
}

Collective sum_of(Array& data) {
  Collective c;
  c.op = Op::all_reduce, c.dtype = Dtype::fp32, c.reduction = Reduction::sum;
  c.elems = data.elems();
  c.send = c.recv = data.at(0);
  return c;
}

TEST(Shm, uses_little_memory_for_collectives_of_any_size) {
  std::string why_not;
  const auto comm = make_shm(why_not);
  ASSERT_TRUE(comm) << why_not;
  const std::int64_t before = comm->window_bytes();
  Array data(Dtype::fp32, 1 << 21);  // 8 MiB
  run(*comm, sum_of(data));
  EXPECT_EQ(comm->window_bytes(), before);
  EXPECT_LE(before, comm->size() * (std::int64_t{1} << 20)) << "1 MiB per rank";
}

TEST(Shm, rounds_of_a_collective_are_the_fewest_that_its_buffers_allow) {
  Collective c;
  c.op = Op::all_reduce, c.elems = 10'000, c.reduction = Reduction::sum;
  EXPECT_EQ(plan_shm_rounds(c, 2, {4096, {}}).rounds, 10u);  // 1024 elements each
  EXPECT_EQ(plan_shm_rounds(c, 1, {4096, {}}).rounds, 0u);
  c.op = Op::reduce_scatter;
  EXPECT_EQ(plan_shm_rounds(c, 2, {4096, {}}).rounds, 10u);  // 512 of each shard of 5000
  c.op = Op::all_gather, c.reduction = Reduction::none;
  EXPECT_EQ(plan_shm_rounds(c, 2, {4096, {}}).rounds, 5u);
  EXPECT_FALSE(plan_shm_rounds(c, 2, {4096, 20'001}).direct);
  EXPECT_TRUE(plan_shm_rounds(c, 2, {4096, 20'000}).direct);
  EXPECT_EQ(plan_shm_rounds(c, 2, {4096, 20'000}).rounds, 1u);
}

TEST(Shm, ranks_in_different_collectives_get_an_error) {
  if (world_size() == 1) GTEST_SKIP() << "one rank agrees with itself";
  std::string why_not;
  const auto comm = make_shm(why_not);
  ASSERT_TRUE(comm) << why_not;
  Array data(Dtype::fp32, 5 + comm->rank());
  Collective c = sum_of(data);
  c.name = "grad.block3";
  std::string message;
  try {
    run(*comm, c);
  } catch (const CommError& e) {
    message = e.what();
  }
  const std::string other = comm->rank() == 0 ? "1" : "0";
  EXPECT_EQ(message, "all_reduce grad.block3: rank " + other +
                         " of the group is in another collective: all ranks must start the same "
                         "collectives in the same order");
  mpi_barrier();
}

// A resource limit keeps rank 0 from making a file of the required size.
class NoSharing : public ::testing::Test {
 protected:
  void SetUp() override {
    if (world_rank() != 0) return;
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    old_action_ = std::signal(SIGXFSZ, SIG_IGN);
    const rlimit none{1, before_.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &none), 0);
  }
  void TearDown() override {
    if (world_rank() != 0) return;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0);
    std::signal(SIGXFSZ, old_action_);
  }

 private:
  rlimit before_{};
  void (*old_action_)(int) = SIG_DFL;
};

TEST_F(NoSharing, is_agreed_on_and_auto_falls_back_to_MPI) {
  std::string why_not;
  EXPECT_FALSE(make_shm(why_not));
  EXPECT_EQ(why_not, "the ranks may not map each other's memory (memfd_create, /proc)");
  EXPECT_THROW(make_communicator(Backend::shm, MPI_COMM_WORLD, make_options()), CommError);
  EXPECT_EQ(make_communicator(Backend::automatic, MPI_COMM_WORLD, make_options())->backend(),
            world_size() > 1 ? Backend::mpi : Backend::self);
}

}  // namespace
}  // namespace shardmark::test::shm_test
