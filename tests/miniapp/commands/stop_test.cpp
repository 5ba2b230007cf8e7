// SPDX-License-Identifier: Apache-2.0
// Rule: a signal that any rank receives, or the time limit, stops all ranks after the same step,
// with a checkpoint, a report of the steps that were done, and status 6. The next run goes on from
// there. A second SIGINT ends the run at once, and a limit of file sizes is an error like any
// other.
#include <algorithm>
#include <csignal>
#include <regex>
#include <thread>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::stop_test {
namespace {

constexpr double start_limit_s = 60;
constexpr int launcher = -1;  // who receives the signal, if not a rank

const Json endless = {{"run", {{"steps", 1000000}, {"warmup", 1}}},
                      {"checkpoint", {{"dir", "ckpt"}, {"resume", "latest"}}}};

// Open MPI's launcher would kill ranks one second after it has passed SIGTERM on. That of Open MPI
// 4 waits as long after any end with another status than 0.
const std::map<std::string, std::string> patient_launcher = {
    {"OMPI_MCA_odls_base_sigkill_timeout", "10"}, {"PRTE_MCA_odls_base_sigkill_timeout", "10"}};

void send(Program& program, int to, int signal) {
  if (to == launcher) {
    ASSERT_EQ(kill(program.pid(), signal), 0);
    return;
  }
  const auto ranks = program.ranks();
  const auto it =
      std::find_if(ranks.begin(), ranks.end(), [&](const Found& f) { return f.rank == to; });
  ASSERT_NE(it, ranks.end());
  ASSERT_EQ(kill(it->pid, signal), 0);
}

// The step after which a run says that `cause` stopped it; 0 if it does not say so.
int stopped_after(const Outcome& outcome, const std::string& cause) {
  const auto lines = lines_of(outcome.out);
  std::smatch match;
  const std::regex result("RESULT=INVALID \\(stopped by " + cause + R"( after step (\d+)\))");
  if (lines.empty() || !std::regex_match(lines.back(), match, result)) return 0;
  return std::stoi(match[1]);
}

void expect_report(const Workplace& place, const std::string& cause, int steps) {
  const Json report = place.report();
  EXPECT_EQ(report["result"], "INVALID");
  EXPECT_EQ(report["stopped"], "stopped by " + cause + " after step " + std::to_string(steps));
  EXPECT_EQ(report["invalid_reasons"], report["stopped"]);
  for (const Json& check : report["checks"]) EXPECT_NE(check["state"], "fail") << check;
  EXPECT_EQ(lines_of(place.losses()).size(), static_cast<std::size_t>(steps) + 1);
}

// MPICH's mpiexec sometimes ends with 0 after it has passed a signal on, whatever its ranks return,
// and Open MPI's with 1.
void expect_status(const Outcome& outcome, int receiver) {
  if (receiver == launcher && outcome.status == (launcher_is_open_mpi() ? 1 : 0)) return;
  EXPECT_EQ(outcome.status, 6) << outcome.err;
}

void expect_stopped(const Workplace& place, const Outcome& outcome, const std::string& cause) {
  const int steps = stopped_after(outcome, cause);
  ASSERT_GT(steps, 0) << outcome.out;
  expect_report(place, cause, steps);
  EXPECT_EQ(run({.args = {"ckpt", "verify", place.path("ckpt")}}).status, 0);
  const Outcome next = run(
      {.args = place.run_args({"--set", "run.steps=" + std::to_string(steps + 1)}), .ranks = 2});
  EXPECT_EQ(next.status, 0) << next.err;
  EXPECT_NE(next.out.find("after step " + std::to_string(steps)), std::string::npos) << next.out;
}

struct Case {
  int signal;
  const char* name;
  int ranks, to, stage;
};

// Open MPI's launcher no longer waits at all since version 6.
bool kills_at_once(int receiver, int signal) {
  return receiver == launcher && signal != SIGUSR1 && open_mpi_version() >= 6;
}

class Stop : public ::testing::TestWithParam<Case> {};

TEST_P(Stop, AfterTheSameStepWithCheckpointAndReport) {
  const Case& c = GetParam();
  if (kills_at_once(c.to, c.signal)) GTEST_SKIP() << "this launcher kills its ranks at once";
  const Workplace place;
  place.deck(c.stage, endless);
  Program program({.args = place.run_args(), .ranks = c.ranks, .environment = patient_launcher});
  ASSERT_TRUE(program.wait_for_output("step ", start_limit_s));
  send(program, c.to, c.signal);
  const Outcome outcome = program.wait();
  EXPECT_FALSE(outcome.timed_out);
  expect_status(outcome, c.to);
  const bool changed = c.to == launcher && c.signal == SIGINT && launcher_is_open_mpi();
  expect_stopped(place, outcome, changed ? "SIGTERM" : c.name);
  EXPECT_TRUE(program.wait_until_gone(gone_limit_s)) << "processes are left";
}

INSTANTIATE_TEST_SUITE_P(
    Signals, Stop,
    ::testing::Values(Case{SIGTERM, "SIGTERM", 1, 0, 0}, Case{SIGINT, "SIGINT", 1, launcher, 2},
                      Case{SIGTERM, "SIGTERM", 2, launcher, 3}, Case{SIGUSR1, "SIGUSR1", 2, 1, 1},
                      Case{SIGINT, "SIGINT", 3, launcher, 3}, Case{SIGTERM, "SIGTERM", 3, 2, 0},
                      Case{SIGUSR1, "SIGUSR1", 4, launcher, 2}, Case{SIGINT, "SIGINT", 4, 3, 3}));

TEST(StopOf, TheTimeLimit) {
  const Workplace place;
  place.deck(3, endless);
  const Outcome outcome =
      run({.args = place.run_args({"--set", "run.time_limit_s=1"}), .ranks = 2});
  EXPECT_EQ(outcome.status, 6) << outcome.err;
  expect_stopped(place, outcome, "run.time_limit_s");
}

// Every collective takes a minute, so that the run cannot stop after a step.
TEST(StopOf, ASecondSignalIsAtOnce) {
  const Workplace place;
  place.deck(3, {{"comm", {{"delay_ms", 60000}}}});
  Program program({.args = place.run_args(), .ranks = 2, .limit_s = 40});
  ASSERT_TRUE(program.wait_for_output("tiny", start_limit_s));
  send(program, 1, SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(2500));
  EXPECT_EQ(program.ranks().size(), 2u) << "the first signal must not end it";
  send(program, 1, SIGINT);
  const Outcome outcome = program.wait();
  EXPECT_FALSE(outcome.timed_out);
  // MPICH's launcher kills the other rank, and may report that rank's end by SIGKILL instead.
  EXPECT_TRUE(outcome.status == 6 || outcome.status == 9) << outcome.status << outcome.err;
  EXPECT_NE(outcome.err.find("shardmark: rank 1 (host "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find("second SIGINT"), std::string::npos) << outcome.err;
  EXPECT_TRUE(program.wait_until_gone(gone_limit_s)) << "processes are left";
}

TEST(StopOf, ASweepKeepsThePointsThatAreDone) {
  if (kills_at_once(launcher, SIGTERM)) GTEST_SKIP() << "this launcher kills its ranks at once";
  const Workplace place;
  place.deck(3);
  const std::vector<std::string> args{
      "sweep", place.path("deck.json"), "--vary", "run.steps=2,1000000", "--out", place.out()};
  Program program({.args = args, .ranks = 2, .environment = patient_launcher});
  ASSERT_TRUE(program.wait_for_output("[1/2]", start_limit_s));
  send(program, launcher, SIGTERM);
  const Outcome outcome = program.wait();
  expect_status(outcome, launcher);
  EXPECT_NE(outcome.out.find("stopped by SIGTERM"), std::string::npos) << outcome.out;
  EXPECT_EQ(outcome.out.find("[2/2]"), std::string::npos) << outcome.out;
}

void expect_file_limit(const Outcome& outcome) {
  EXPECT_EQ(outcome.status, 4) << outcome.err;
  EXPECT_NE(outcome.err.find("File too large"), std::string::npos) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("shardmark: ")) << outcome.err;
}

TEST(FileLimit, OfAPlanIsAnErrorOfOutput) {
  const Workplace place;
  place.deck(3);
  expect_file_limit(
      run({.args = {"plan", place.path("deck.json"), "--ranks", "2"}, .file_limit_bytes = 200}));
}

// The limit comes during the run, because MPI cannot start under one.
TEST(FileLimit, OfARunIsAnErrorOfOutput) {
  const Workplace place;
  place.deck(3, {{"run", {{"steps", 1000000}}}});
  Program program({.args = place.run_args()});
  ASSERT_TRUE(program.wait_for_output("step ", start_limit_s));
  const rlimit limit{1000, 1000};
  ASSERT_EQ(prlimit(program.pid(), RLIMIT_FSIZE, &limit, nullptr), 0);
  ASSERT_EQ(kill(program.pid(), SIGTERM), 0);
  expect_file_limit(program.wait());
}

}  // namespace
}  // namespace shardmark::test::stop_test
