// SPDX-License-Identifier: Apache-2.0
// Five runs are five only if each is another run of one program on one machine, handed in by those
// who ran it: replayed reports, runs that are counted twice and mixed runs are refused.
#include <array>
#include <ctime>

#include <gtest/gtest.h>

#include <tests/miniapp/tools/submission/mended_archive.hpp>
#include <tests/support/program.hpp>

namespace shardmark::test::repetition_test {
namespace {

// Two runs of one deck and their archive, made once.
class Repetitions : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = new Workplace;
    const std::string deck = place_->deck(1, {{"run", {{"steps", 8}}}});
    for (const char* folder : {"first", "second"}) {
      const Outcome ran = run({.args = {"run", deck, "--out", place_->path(folder)}});
      ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
    }
    const Outcome packed = submit({"first", "second"}, "both.zip");
    ASSERT_EQ(packed.status, 0) << packed.out << packed.err;
  }
  static void TearDownTestSuite() {
    delete place_;
    place_ = nullptr;
  }

  static Outcome submit(const std::vector<std::string>& folders, const std::string& archive) {
    std::vector<std::string> args{"submit"};
    for (const std::string& folder : folders) args.push_back(place_->path(folder));
    for (const char* more : {"--form", "organisation=The Centre", "--form", "nodes=1", "--out"})
      args.emplace_back(more);
    args.push_back(place_->path(archive));
    return run({.args = args});
  }

  // Verifies the archive after a change of the second run's report; all checksums are mended.
  static void expect_refused(const std::function<void(Json& report, const Json& first)>& change,
                             const std::string& why) {
    ArchiveFiles files = read_archive(place_->path("both.zip"));
    const Json first = Json::parse(files.at("runs/1/report.json"));
    change_run(files, "runs/2", [&](Json& report, std::string&) { change(report, first); });
    write_archive(place_->path("changed.zip"), files);
    expect_refused(place_->path("changed.zip"), why);
  }
  static void expect_refused(const std::string& archive, const std::string& why) {
    const Outcome o = run({.args = {"verify", archive}});
    EXPECT_EQ(o.status, 1) << why << "\n" << o.out << o.err;
    EXPECT_NE(o.out.find(why), std::string::npos) << "not found: " << why << "\n" << o.out;
  }
  static void expect_form_refused(const char* entry, const Json& value, const std::string& why) {
    ArchiveFiles files = read_archive(place_->path("both.zip"));
    Json index = Json::parse(files.at("submission.json"));
    index["form"][entry] = value;
    files["submission.json"] = index.dump();
    write_archive(place_->path("changed.zip"), files);
    expect_refused(place_->path("changed.zip"), why);
  }

  static Workplace* place_;
};

Workplace* Repetitions::place_ = nullptr;

TEST_F(Repetitions, OfOneProgramOnOneMachineAreVerified) {
  const Outcome o = run({.args = {"verify", place_->path("both.zip")}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
}

TEST_F(Repetitions, ThatAreOneRunAreRefused) {
  const Outcome twice = submit({"first", "first"}, "twice.zip");
  EXPECT_EQ(twice.status, 1) << twice.out;
  EXPECT_NE(twice.out.find("this is the same run as runs/1"), std::string::npos) << twice.out;
  EXPECT_NE(twice.out.find("is written, but a run in it is refused"), std::string::npos)
      << twice.out;
  // Another identity and another hour do not help: the times of the steps are the same.
  ArchiveFiles files = read_archive(place_->path("twice.zip"));
  change_run(files, "runs/2", [](Json& r, std::string&) {
    r["run"] = {{"id", "0123456789abcdef"},
                {"started", "2026-01-01T00:00:00Z"},
                {"ended", "2026-01-01T01:00:00Z"}};
  });
  write_archive(place_->path("twice.zip"), files);
  expect_refused(place_->path("twice.zip"), "this is the same run as runs/1");
  // Nor does another seed, if only every second time is another one.
  change_run(files, "runs/2", [](Json& r, std::string& losses) {
    r["proof"]["seed"] = "0123456789abcdef";
    losses = with_times(losses, [](int step, double s) { return step % 2 == 0 ? s : s * 1.001; });
  });
  write_archive(place_->path("twice.zip"), files);
  expect_refused(place_->path("twice.zip"), "this is the same run as runs/1");
}

TEST_F(Repetitions, OfTwoArchivesAreCountedOnce) {
  EXPECT_EQ(submit({"first"}, "ours.zip").status, 0);
  const Outcome o = run({.args = {"table", place_->path("both.zip"), place_->path("ours.zip")}});
  EXPECT_EQ(o.status, 1) << o.out;
  EXPECT_NE(o.out.find("left out: "), std::string::npos) << o.out;
  EXPECT_NE(o.out.find("this is the same run as runs/1 of "), std::string::npos) << o.out;
}

TEST_F(Repetitions, AtTheSameTimeAreRefused) {
  std::time_t soon = std::time(nullptr) + 60;
  std::array<char, 32> text{};
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", std::gmtime(&soon));
  expect_refused(
      [&](Json& r, const Json&) {
        r["run"]["started"] = "2026-01-01T00:00:00Z";
        r["run"]["ended"] = text.data();
      },
      "at the same time as runs/1");
}

TEST_F(Repetitions, OfAnotherProgramOrMachineAreRefused) {
  expect_refused([](Json& r, const Json&) { r["binaries"].begin().value() = "0123456789abcdef"; },
                 "the program differs from that of runs/1");
  expect_refused([](Json& r, const Json&) { r["versions"]["compiler"] = "another"; },
                 "the software differs from that of runs/1");
  expect_refused([](Json& r, const Json&) { r["ranks"][0]["processor"] = "another"; },
                 "the processor differs from that of runs/1");
  expect_refused([](Json& r, const Json&) { r["ranks"][0]["matmul_threads"] = 64; },
                 "the number of threads differs from that of runs/1");
  expect_refused([](Json& r, const Json&) { r["deck"]["comm"]["backend"] = "mpi"; },
                 "comm.backend differs from that of runs/1");
}

// Nothing but steps is in the timed span of one rank, so that it is no shorter than they are.
TEST_F(Repetitions, WithAShorterSpanThanTheStepsAreRefused) {
  expect_refused(
      [](Json& r, const Json&) {
        for (Json* span : {&r["step_seconds"]["timed_total"], &r["energy"]["seconds"]})
          *span = span->get<double>() * 0.5;
        r["fom"]["value"] = r["fom"]["value"].get<double>() * 2;
      },
      "timed_total is");
}

TEST_F(Repetitions, UnderTheFormOfAnotherMachineAreRefused) {
  expect_form_refused("processor", "another", "the form names the processor");
  expect_form_refused("software", {{"compiler", "another"}}, "the form names other software");
  expect_form_refused("nodes", "64", "the form names 64 nodes");
  expect_form_refused("ranks", 64, "the form names 64 ranks, the report 1");
}

}  // namespace
}  // namespace shardmark::test::repetition_test
