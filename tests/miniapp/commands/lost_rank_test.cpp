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

class LostRank : public testing::TestWithParam<int> {
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

INSTANTIATE_TEST_SUITE_P(Program, LostRank, testing::Values(0, 1));

}  // namespace
}  // namespace shardmark::test::lost_rank_test
