// SPDX-License-Identifier: Apache-2.0
// Every failure ends in a CommError with NCCL's own text, and the communicator is aborted without
// waiting: asynchronous errors, failing calls, ranks that do not come, timeouts of the watchdog.
#include <gtest/gtest.h>

#include <comm/decorators/watching.hpp>
#include <tests/comm/nccl/fake_device.hpp>
#include <tests/support/message_of.hpp>
#include <tests/support/world.hpp>

namespace shardmark::test::nccl_failure_test {
namespace {

class NcclFailure : public ::testing::Test {
 protected:
  void SetUp() override { fake() = FakeDevice{}; }
  void TearDown() override {
    EXPECT_EQ(fake().comms, 0);
    EXPECT_EQ(fake().streams, 0);
    EXPECT_EQ(fake().events, 0);
    fake() = FakeDevice{};
    mpi_barrier();
  }
  Collective barrier() const {
    Collective c;
    c.op = Op::barrier, c.name = "end of step";
    return c;
  }
};

TEST_F(NcclFailure, an_asynchronous_error_is_reported_and_the_communicator_aborted) {
  auto comm = make_world(make_options(), Backend::nccl);
  const Ticket ticket = comm->start(barrier());
  fake().async_error = ncclRemoteError;
  const std::string what = message_of([&] { comm->wait(ticket); });
  // If the barrier was done before the error came, wait() succeeds.
  EXPECT_TRUE(what == "no CommError" ||
              what ==
                  "barrier end of step: NCCL: remote process exited or there was a network "
                  "error: said by the stand-in: run again with NCCL_DEBUG=INFO to see which "
                  "rank failed first")
      << what;
  // In that case the next poll reports the error.
  if (what == "no CommError") {
    EXPECT_THROW(comm->progress(), CommError);
  }
  EXPECT_EQ(fake().aborted, 1);
  EXPECT_NE(message_of([&] { comm->start(barrier()); }).find("was aborted after an error"),
            std::string::npos);
  comm.reset();
  EXPECT_EQ(fake().finalized, 0) << "peers may never join it";
  EXPECT_EQ(fake().aborted, 1);
}

TEST_F(NcclFailure, a_call_that_fails_is_named_with_its_place) {
  const auto comm = make_world(make_options(), Backend::nccl);
  fake().failing_call = "ncclAllReduce";
  const std::string what = message_of([&] { comm->start(barrier()); });
  EXPECT_EQ(what.rfind("nccl_calls.cpp:", 0), 0u) << what;
  EXPECT_NE(what.find("ncclAllReduce: unhandled system error"), std::string::npos) << what;
}

TEST_F(NcclFailure, without_a_unique_id_all_ranks_report_it) {
  if (world_rank() == 0) fake().failing_call = "ncclGetUniqueId";
  const std::string what = message_of([&] { make_world(make_options(), Backend::nccl); });
  EXPECT_NE(what.find("ncclGetUniqueId of rank 0: unhandled system error"), std::string::npos)
      << what;
}

TEST_F(NcclFailure, a_rank_that_does_not_come_is_waited_for_no_longer_than_the_timeout) {
  if (world_size() == 1) GTEST_SKIP() << "one rank waits for nobody";
  CommOptions options = make_options();
  options.nccl.start_timeout_s = 0.3;
  // The last rank receives the id, but its call that makes the communicator fails.
  if (world_rank() + 1 == world_size()) fake().failing_call = "ncclCommInitRankConfig";
  const std::string what = message_of([&] { make_world(options, Backend::nccl); });
  if (world_rank() + 1 == world_size()) {
    EXPECT_NE(what.find("ncclCommInitRankConfig: unhandled system error"), std::string::npos);
    return;
  }
  EXPECT_EQ(what.rfind("NCCL start-up: not finished after 0.3 s: a rank is missing", 0), 0u)
      << what;
  EXPECT_EQ(fake().aborted, 1);
}

TEST_F(NcclFailure, the_watchdogs_error_ends_in_an_abort) {
  if (world_size() == 1) GTEST_SKIP() << "one rank waits for nobody";
  const bool late = world_rank() + 1 == world_size();
  {
    Watchdog watch(MPI_COMM_WORLD, 0.3, make_options().idle);
    auto comm =
        std::make_unique<WatchingCommunicator>(make_world(make_options(), Backend::nccl), watch);
    if (!late) {
      const std::string what = message_of([&] {
        const std::unique_ptr<Communicator> ends_with_it = std::move(comm);
        hold_compute(*ends_with_it, ends_with_it->start(barrier()));  // on the stream, not done
        run(*ends_with_it, barrier());
      });
      EXPECT_EQ(what.rfind("barrier end of step (call 1) not finished after 0.3 s: ", 0), 0u)
          << what;
      EXPECT_EQ(fake().aborted, 1);
      EXPECT_EQ(fake().finalized, 0);
    }
    mpi_barrier();
    if (late) fake().async_error = ncclRemoteError;  // its peers are gone by now
  }
  EXPECT_EQ(fake().aborted, 1);
}

TEST_F(NcclFailure, a_propagating_exception_ends_in_an_abort) {
  EXPECT_THROW(
      {
        const auto comm = make_world(make_options(), Backend::nccl);
        throw MemoryError("of this rank alone");
      },
      MemoryError);
  EXPECT_EQ(fake().aborted, 1);
  EXPECT_EQ(fake().finalized, 0);
}

TEST_F(NcclFailure, ordered_sums_are_refused) {
  EXPECT_EQ(
      message_of([] { make_world(make_options(Reductions::ordered), Backend::nccl); }),
      "comm.backend = nccl: run.reductions = ordered: not implemented on NCCL: choose native, "
      "or mpi");
}

}  // namespace
}  // namespace shardmark::test::nccl_failure_test
