// SPDX-License-Identifier: Apache-2.0
// Rule: if a rank stops or dies while the others train, all end in bounded time and no process is
// left.
#include <algorithm>

#include <gtest/gtest.h>
#include <signal.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::lost_rank_test {
namespace {

constexpr int world = 3;
constexpr double start_limit_s = 30;

Launch endless(const Workplace& place) {
  place.deck(3, {{"run", {{"steps", 1000000}}}, {"comm", {{"timeout_s", 2}}}});
  return {.args = place.run_args(), .ranks = world, .limit_s = 40};
}

class LostRank : public ::testing::TestWithParam<int> {
 protected:
  // The process of the rank that this test is about, once all train.
  pid_t victim(Program& program) {
    if (!program.wait_for_output("step ", start_limit_s)) return 0;
    const auto ranks = program.ranks();
    EXPECT_EQ(ranks.size(), static_cast<std::size_t>(world));
    const auto it = std::find_if(ranks.begin(), ranks.end(),
                                 [](const Found& f) { return f.rank == GetParam(); });
    return it == ranks.end() ? 0 : it->pid;
  }
};

TEST_P(LostRank, StoppedIsNamedAndAllEnd) {
  const Workplace place;
  Program program(endless(place));
  const pid_t pid = victim(program);
  ASSERT_GT(pid, 0);
  ASSERT_EQ(kill(pid, SIGSTOP), 0);
  const Outcome outcome = program.wait();
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_EQ(outcome.status, 5);
  const std::string named = "rank " + std::to_string(GetParam()) + " (host ";
  const std::string answer = "pid " + std::to_string(pid) + ") does not answer";
  int messages = 0;
  for (const std::string& line : lines_of(outcome.err)) {
    if (!line.starts_with("shardmark: ")) continue;  // a line of MPI_Abort
    ++messages;
    EXPECT_NE(line.find("not finished after 2 s"), std::string::npos) << line;
    EXPECT_NE(line.find(named), std::string::npos) << line;
    EXPECT_NE(line.find(answer), std::string::npos) << line;
    EXPECT_NE(line.find("comm.timeout_s"), std::string::npos) << line;
  }
  EXPECT_EQ(messages, 1) << outcome.err;
  EXPECT_EQ(outcome.out.find("RESULT="), std::string::npos);
  EXPECT_TRUE(program.wait_until_gone(gone_limit_s)) << "processes are left";
}

TEST_P(LostRank, KilledEndsAll) {
  const Workplace place;
  Program program(endless(place));
  const pid_t pid = victim(program);
  ASSERT_GT(pid, 0);
  ASSERT_EQ(kill(pid, SIGKILL), 0);
  const Outcome outcome = program.wait();
  EXPECT_FALSE(outcome.timed_out);
  EXPECT_NE(outcome.status, 0);
  EXPECT_EQ(outcome.out.find("RESULT="), std::string::npos);
  EXPECT_TRUE(program.wait_until_gone(gone_limit_s)) << "processes are left";
}

// How a process must end that receives one of these signals.
struct Ending {
  int signal, status;
  const char* text;
};
constexpr Ending endings[] = {{SIGABRT, 70, "SIGABRT"}, {SIGILL, 2, "SHARDMARK_NATIVE"}};

// MPICH's launcher gives the number of a signal as its status: 6 for SIGABRT and 4 for SIGILL,
// which mean something else here. It may also give the 9 of a rank that it killed afterwards.
TEST_P(LostRank, AbortedHasAStatusOfItsOwn) {
  for (const Ending& ending : endings) {
    const Workplace place;
    Program program(endless(place));
    const pid_t pid = victim(program);
    ASSERT_GT(pid, 0);
    ASSERT_EQ(kill(pid, ending.signal), 0);
    const Outcome outcome = program.wait();
    EXPECT_FALSE(outcome.timed_out);
    EXPECT_TRUE(outcome.status == ending.status || outcome.status >= SIGKILL) << outcome.status;
    EXPECT_NE(outcome.err.find(ending.text), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.out.find("RESULT="), std::string::npos);
    EXPECT_TRUE(program.wait_until_gone(gone_limit_s)) << "processes are left";
  }
}

TEST(LostProcess, AbortedHasOneLineAndAStatusOfItsOwn) {
  for (const Ending& ending : endings) {
    const Workplace place;
    Launch launch = endless(place);
    launch.ranks = 0;
    Program program(launch);
    ASSERT_TRUE(program.wait_for_output("step ", start_limit_s));
    ASSERT_EQ(kill(program.pid(), ending.signal), 0);
    const Outcome outcome = program.wait();
    EXPECT_EQ(outcome.status, ending.status);
    const auto lines = lines_of(outcome.err);
    ASSERT_EQ(lines.size(), 1u) << outcome.err;
    EXPECT_TRUE(lines[0].starts_with("shardmark: ")) << lines[0];
    EXPECT_NE(lines[0].find(ending.text), std::string::npos) << lines[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Program, LostRank, ::testing::Values(0, 1));

}  // namespace
}  // namespace shardmark::test::lost_rank_test
