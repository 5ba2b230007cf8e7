// SPDX-License-Identifier: Apache-2.0
// Rules of progress: plain lines in a file or a pipe, one rewritten line on a terminal, and the
// result at the end of both.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>

#include <tests/support/pattern.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::progress_test {
namespace {

class Progress : public ::testing::TestWithParam<int> {
 protected:
  std::string train(bool terminal) {
    const Workplace place;
    place.deck(3, {{"run", {{"steps", 12}}}});
    const Outcome outcome =
        run({.args = place.run_args(), .ranks = GetParam(), .terminal = terminal});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_TRUE(outcome.out.ends_with("\nRESULT=VALID\n")) << outcome.out;
    return outcome.out;
  }
};

TEST_P(Progress, IsPlainLinesInAFile) {
  const std::string out = train(false);
  EXPECT_EQ(out.find_first_of("\r\x1b"), std::string::npos) << "terminal control in a file";
  int steps = 0;
  for (const std::string& line : lines_of(out)) steps += line.starts_with("step ") ? 1 : 0;
  EXPECT_EQ(steps, 12);
}

TEST_P(Progress, RewritesItsLineOnATerminal) {
  const std::string out = train(true);
  EXPECT_NE(out.find("\rstep ") == std::string::npos ? out.find("\r\x1b[Kstep ") : 0,
            std::string::npos)
      << out;
  for (const std::string& line : lines_of(out))
    EXPECT_FALSE(line.starts_with("step ")) << "a line of its own: " << line;
  const auto last_progress = out.rfind('\r');
  const auto report = out.find("Memory, this rank");
  ASSERT_NE(last_progress, std::string::npos);
  EXPECT_LT(last_progress, report) << "the report comes after the last rewritten line";
}

// `script` under the name of a launcher gives the program a terminal, as Open MPI's launcher does.
TEST(ProgressLine, IsNotRewrittenForATerminalOfTheLauncherAlone) {
  if (!std::filesystem::exists("/usr/bin/script")) GTEST_SKIP() << "needs script of util-linux";
  const Workplace place;
  place.deck(3, {{"run", {{"steps", 2}}}});
  const std::string launcher = place.path("mpirun"), out = place.path("stdout");
  std::filesystem::create_symlink("/usr/bin/script", launcher);
  std::string words = "exec " SHARDMARK_TEST_PROGRAM;
  for (const std::string& word : place.run_args()) words += " " + word;
  const std::string command = launcher + " -qec '" + words + "' /dev/null > " + out;
  ASSERT_EQ(std::system(command.c_str()), 0);
  const std::string text = read_text(out);
  EXPECT_NE(text.find("RESULT=VALID"), std::string::npos) << text;
  EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
}

// Noise is measured in two halves, of which each says how long the rest takes.
TEST(WorkProgress, OfNoiseIsOneRewrittenLineWithTheTimeLeft) {
  const auto noise = [](bool terminal) {
    const Outcome o = run({.args = {"noise", "--seconds", "2"}, .terminal = terminal});
    EXPECT_EQ(o.status, 0) << o.err;
    return o.out;
  };
  EXPECT_EQ(noise(false).find_first_of("\r\x1b"), std::string::npos);
  const std::string out = noise(true);
  EXPECT_TRUE(contains(out, "\r.\\[Knoise, ranks on their own: \\d s left")) << out;
  EXPECT_TRUE(contains(out, "\r.\\[K.* wait for each other: \\d s left")) << out;
}

// A storage deck is silent for hours otherwise.
TEST(WorkProgress, OfAStorageDeckIsALinePerWriteAndRead) {
  const Workplace place;
  place.deck(3, {{"run", {{"steps", 1}, {"compute", "none"}}},
                 {"checkpoint", {{"dir", place.path("checkpoints")}, {"benchmark", 3}}}});
  const Outcome o = run({.args = place.run_args(), .ranks = 2});
  EXPECT_EQ(o.status, 0) << o.err;
  std::size_t before = 0;
  for (const char* line : {"write 1/3", "write 2/3", "write 3/3", "read 1/3", "read 2/3",
                           "read 3/3", "FOM checkpoint_write_gib_per_s="}) {
    const std::size_t at = o.out.find(line);
    ASSERT_NE(at, std::string::npos) << line << " is not in\n" << o.out;
    EXPECT_GT(at, before) << line;
    before = at;
  }
}

TEST(WorkProgress, OfASweepIsALinePerPoint) {
  const Workplace place;
  const Outcome o =
      run({.args = {"sweep", place.deck(1, {{"run", {{"steps", 1}, {"warmup", 0}}}}), "--vary",
                    "deepspeed.zero_optimization.stage=0,1", "--out", place.out()}});
  EXPECT_EQ(o.status, 0) << o.err;
  for (const char* line : {"\n[1/2] deepspeed.zero_optimization.stage=0 on 1 rank: VALID",
                           "\n[2/2] deepspeed.zero_optimization.stage=1 on 1 rank: VALID"})
    EXPECT_NE(o.out.find(line), std::string::npos) << line << " is not in\n" << o.out;
}

// The whole calibration takes minutes, so only its beginning is seen here.
TEST(WorkProgress, OfCalibrateIsOneLineWithTheTimeLeft) {
  const Workplace place;
  Program program({.args = {"calibrate", "--out", place.path("machine.json")}, .terminal = true});
  EXPECT_TRUE(program.wait_for_output("\r\x1b[Kcalibrating for ", 60)) << program.out();
  EXPECT_TRUE(contains(program.out(), "\\[Kcalibrating for \\d+ s, at most .* left: "))
      << program.out();
}

// Without a launcher, and with one between the program and the terminal.
INSTANTIATE_TEST_SUITE_P(Ranks, Progress, ::testing::Values(0, 2));

}  // namespace
}  // namespace shardmark::test::progress_test
