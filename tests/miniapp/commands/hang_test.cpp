// SPDX-License-Identifier: Apache-2.0
// Rule: whatever call a rank hangs in, outside collectives too, all processes end in bounded time,
// and the message names what did not end. A preloaded library makes the rank hang.

#include <gtest/gtest.h>

#include <tests/support/pattern.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::hang_test {
namespace {

// Where a rank ends itself while MPI is open (`_exit`, whose status tests/miniapp/ranks looks at),
// the launcher may see its lost connection before its status, and gives one of its own.
constexpr int launchers_own = -1;
// The limit holds for every phase, MPI_Init included, which takes longer on a busy machine.
constexpr const char* phase_limit_s = "6";

struct Hang {
  std::string call;  // of SHARDMARK_TEST_HANG
  int status;
  std::string message;  // a regular expression
};

void PrintTo(const Hang& hang, std::ostream* out) {
  *out << hang.call;
}

class Hangs : public ::testing::TestWithParam<Hang> {};

TEST_P(Hangs, EndInBoundedTimeAndNameThePhase) {
  const Workplace place;
  place.deck(3, {{"comm", {{"timeout_s", 2}, {"backend", "mpi"}}},
                 {"checkpoint", {{"dir", "ckpt"}, {"every", 2}}}});
  Program program({.args = place.run_args(),
                   .ranks = 2,
                   .environment = {{"LD_PRELOAD", SHARDMARK_TEST_PRELOAD},
                                   {"SHARDMARK_TEST_HANG", GetParam().call},
                                   {"SHARDMARK_PHASE_LIMIT_S", phase_limit_s}}});
  const Outcome outcome = program.wait();
  EXPECT_FALSE(outcome.timed_out);
  if (GetParam().status == launchers_own) {
    EXPECT_NE(outcome.status, 0) << outcome.err;
  } else if (GetParam().status == 0 && launcher_is_open_mpi()) {
    // To this launcher, a process that ends within MPI_Finalize has failed.
    EXPECT_EQ(outcome.status, 1) << outcome.err;
  } else {
    EXPECT_EQ(outcome.status, GetParam().status) << outcome.err;
  }
  EXPECT_TRUE(contains(outcome.err, GetParam().message)) << outcome.err;
  EXPECT_TRUE(program.wait_until_gone(gone_limit_s)) << "processes are left";
}

// In start-up the other rank waits as well, and either may be the first to end.
const Hang hangs[] = {
    {"MPI_Init_thread 1 1", launchers_own, "rank [01] .*start-up: MPI_Init not finished after 6 s"},
    {"MPI_Comm_dup 0 1", launchers_own,
     "rank [01] .*start-up: duplicating communicators not finished"},
    {"MPI_Comm_dup 1 3", launchers_own, "rank [01] .*making communicators not finished after 2 s"},
    // Of the step that is made again after the last one.
    {"MPI_Comm_dup 1 4", launchers_own, "rank [01] .*making communicators not finished after 2 s"},
    {"MPI_Iallgather 1 30", 5, "not finished after 2 s: rank 1 .*does not answer"},
    {"fsync 1 1", launchers_own, "rank 1 .*(writing a checkpoint not finished|does not answer)"},
    {"MPI_Finalize 1 1", 0, "rank 1 .*MPI_Finalize not finished"},
};

INSTANTIATE_TEST_SUITE_P(Calls, Hangs, ::testing::ValuesIn(hangs));

// Rank 1 hangs in a collective, and rank 0, which says so, in MPI_Abort: its own guard ends it.
TEST(HangOfAbort, EndsTheRankAlone) {
  const Workplace place;
  place.deck(3, {{"comm", {{"timeout_s", 2}, {"backend", "mpi"}}}});
  Program program({.args = place.run_args(),
                   .ranks = 2,
                   .environment = {{"LD_PRELOAD", SHARDMARK_TEST_PRELOAD},
                                   {"SHARDMARK_TEST_HANG", "MPI_Iallgather 1 30"},
                                   {"SHARDMARK_TEST_HANG_ABORT", "1"},
                                   {"SHARDMARK_PHASE_LIMIT_S", phase_limit_s}}});
  const Outcome outcome = program.wait();
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_NE(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.err, "rank 0 .*MPI_Abort not finished after 6 s")) << outcome.err;
  EXPECT_TRUE(program.wait_until_gone(gone_limit_s)) << "processes are left";
}

}  // namespace
}  // namespace shardmark::test::hang_test
