// SPDX-License-Identifier: Apache-2.0
// What people put into names and arguments stays within its line and never reaches a terminal as a
// command; streams that are closed at the start, and memory that cannot be had, are no crash.
#include <cstdlib>
#include <filesystem>

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::hostile_text_test {
namespace {

const std::string hostile = "x\nRESULT=VALID\r\x1b[2Jz\x7f\u0085\u202e";
const std::string shown = "x\\nRESULT=VALID\\r\\x1b[2Jz\\x7f\\u0085\\u202e";

void expect_clean(const std::string& text) {
  for (const char c : text)
    if ((static_cast<unsigned char>(c) < ' ' && c != '\n') || c == 0x7f)
      ADD_FAILURE() << "a control character " << static_cast<int>(c) << " in: " << text;
  EXPECT_EQ(text.find("\u202e"), std::string::npos);
  EXPECT_EQ(text.find("\u0085"), std::string::npos);
}

std::size_t results(const std::string& text) {
  std::size_t n = 0;
  for (const std::string& line : lines_of(text)) n += line.starts_with("RESULT=");
  return n;
}

TEST(HostileText, ADecksNameStaysWithinItsLine) {
  const Workplace place;
  place.deck(3, {{"name", hostile}, {"trace", "trace.json"}});
  const Outcome o = run({.args = place.run_args(), .ranks = 2});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("ShardMark: " + shown + " ("), std::string::npos) << o.out;
  EXPECT_EQ(results(o.out), 1U) << o.out;
  expect_clean(o.out);
  expect_clean(o.err);
  EXPECT_EQ(place.report()["name"], hostile);  // JSON has escapes of its own
  for (const char* file : {"report.html", "losses.csv", "report.json"})
    expect_clean(read_text(place.out() + "/" + file));
}

TEST(HostileText, NamesOfModulesToo) {
  const Workplace place;
  Json deck = Json::parse(read_text(place.deck(3)));
  deck["model"] = {{"family", "list"},
                   {"modules", Json::array({{{"name", hostile}, {"numels", {64, 8}}}})}};
  deck["run"]["compute"] = "none";
  place.write("deck.json", deck.dump());
  for (const char* format : {"text", "dot", "json"}) {
    const Outcome o =
        run({.args = {"plan", place.path("deck.json"), "--ranks", "2", "--format", format}});
    EXPECT_EQ(o.status, 0) << o.err;
    EXPECT_EQ(results(o.out), 0U) << o.out;
    expect_clean(o.out);
  }
  const Outcome o = run({.args = place.run_args(), .ranks = 2});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(results(o.out), 1U) << o.out;
  expect_clean(o.out);
}

TEST(HostileText, ErrorsAreOneLine) {
  const Workplace place;
  place.deck(3);
  const std::string deck = place.path("deck.json");
  const std::vector<std::vector<std::string>> calls = {
      {"plan", hostile, "--ranks", "2"},
      {"plan", deck, "--ranks", "2", "--set", hostile},
      {"plan", deck, "--ranks", "2", "--set", "run." + hostile + "=1"},
      {"plan", deck, "--ranks", "2", "--set", "run.schedule=" + hostile},
      {"plan", deck, "--ranks", "2", "--set", "deepspeed=" + hostile},
      {"plan", deck, "--ranks", hostile},
      {"run", deck, "--" + hostile},
      {"ckpt", "info", hostile},
      {"ckpt", hostile},
      {"sweep", deck, "--vary", hostile, "--plan", "--ranks", "2", "--out", place.path("sweep")},
      {"deck", "check", deck, "--set", "name=3" + hostile, "--set", hostile + "=1"}};
  for (const auto& args : calls) {
    const Outcome o = run({.args = args});
    EXPECT_TRUE(o.status == 2 || o.status == 4) << o.status;
    // A sweep writes into its table why a point is refused.
    EXPECT_EQ(lines_of(o.err).size(), args[0] == "sweep" ? 0U : 1U) << args[1] << o.err;
    EXPECT_EQ(results(o.out + o.err), 0U) << o.err;
    expect_clean(o.err);
    expect_clean(o.out);
  }
}

TEST(HostileText, SweepsAndFindingsAreClean) {
  const Workplace place;
  place.deck(3, {{"name", hostile}});
  Outcome o = run({.args = {"deck", "check", place.path("deck.json"), "--ranks", "2"}});
  EXPECT_EQ(o.status, 0) << o.err;
  expect_clean(o.out);
  o = run({.args = {"sweep", place.path("deck.json"), "--vary", "name=" + hostile + ",b", "--plan",
                    "--ranks", "2", "--out", place.path("sweep")}});
  EXPECT_EQ(results(o.out + o.err), 0U) << o.out << o.err;
  expect_clean(o.out);
  expect_clean(o.err);
}

// By a shell, which closes the streams.
int shell(const std::string& command) {
  const int status = std::system(command.c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST(ClosedStreams, AreNoAbort) {
  const Workplace place;
  place.deck(1, {{"checkpoint", {{"dir", "ckpt"}, {"every", 1}, {"keep", 1}}}});
  const std::string program = SHARDMARK_TEST_PROGRAM, deck = place.path("deck.json");
  for (const std::string& closed :
       {std::string("<&-"), std::string(">&-"), std::string("2>&-"), std::string("<&- >&- 2>&-")}) {
    SCOPED_TRACE(closed);
    const std::string quiet = "cd " + place.path("") + " && exec >o 2>e; ";
    EXPECT_EQ(shell(quiet + program + " plan " + deck + " --ranks 2 " + closed), 0);
    EXPECT_EQ(shell(quiet + program + " --version " + closed), 0);
    EXPECT_EQ(shell(quiet + program + " plan none.json --ranks 2 " + closed), 2);
    EXPECT_EQ(shell(quiet + program + " --nothing " + closed), 2);
    EXPECT_EQ(
        shell(quiet + "OMP_NUM_THREADS=1 " + program + " run " + deck + " --out out " + closed), 0);
    EXPECT_EQ(shell(quiet + program + " ckpt verify ckpt " + closed), 0);
  }
}

// Most of a deck this large is memory that is refused.
TEST(OutOfMemory, IsASentenceAndStatus3) {
  const Workplace place;
  std::string text = "{\"name\": [0";
  for (int i = 0; i < 8'000'000; ++i) text += ",0";
  place.write("deck.json", text + "]}");
  int refused = 0;
  for (int mib = 64; mib <= 1024 && refused < 3; mib += 64) {
    const std::string err = place.path("err");
    const int status = shell("ulimit -v " + std::to_string(mib * 1024) + "; " +
                             std::string(SHARDMARK_TEST_PROGRAM) + " plan " +
                             place.path("deck.json") + " --ranks 2 >" + err + ".out 2>" + err);
    const std::string what = read_text(err);
    if (what.find("shared librar") != std::string::npos || status == 127) continue;  // not begun
    if (what.find("the system has no more memory") == std::string::npos) continue;
    ++refused;
    EXPECT_EQ(status, 3) << what;
    EXPECT_EQ(lines_of(what).size(), 1U) << what;
  }
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace shardmark::test::hostile_text_test
