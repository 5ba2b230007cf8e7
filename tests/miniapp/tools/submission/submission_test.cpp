// SPDX-License-Identifier: Apache-2.0
// A submission is verified without running anything, and every way of tampering with it is refused
// with the figure that does not add up.
#include <cstdlib>
#include <filesystem>
#include <functional>

#include <gtest/gtest.h>

#include <core/error.hpp>
#include <tests/miniapp/tools/submission/mended_archive.hpp>
#include <tests/support/program.hpp>

namespace shardmark::test::submission_test {
namespace {

// A run of two ranks and its archive, made once for all tests of this file.
class Submissions : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    place_ = new Workplace;
    const std::string deck = place_->deck(2, {{"deepspeed", {{"gradient_clipping", 1.0}}}});
    const Outcome ran = run({.args = {"run", deck, "--out", place_->out()}, .ranks = 2});
    ASSERT_EQ(ran.status, 0) << ran.out << ran.err;
    const Outcome packed = run({.args = {"submit", place_->out(), "--out", archive(), "--form",
                                         "organisation=The Centre", "--form", "system=Box"}});
    ASSERT_EQ(packed.status, 0) << packed.out << packed.err;
  }
  static void TearDownTestSuite() {
    delete place_;
    place_ = nullptr;
  }

  static std::string archive() { return place_->path("ours.zip"); }

  // Writes the archive with changes, as somebody would who also mends the checksums.
  static std::string changed(const std::function<void(ArchiveFiles&)>& change) {
    ArchiveFiles files = read_archive(archive());
    change(files);
    mend_index(files);
    const std::string path = place_->path("changed.zip");
    write_archive(path, files);
    return path;
  }

  static std::string with_report(const std::function<void(Json&)>& change) {
    return changed([&](ArchiveFiles& files) {
      Json report = Json::parse(files.at("runs/1/report.json"));
      change(report);
      files["runs/1/report.json"] = mended_report(report, files.at("runs/1/losses.csv"));
    });
  }

  static void expect_refused(const std::string& path, const std::string& why) {
    const Outcome o = run({.args = {"verify", path}});
    EXPECT_EQ(o.status, 1) << why << "\n" << o.out << o.err;
    EXPECT_NE(o.out.find(why), std::string::npos) << o.out;
    EXPECT_TRUE(o.out.ends_with("REFUSED\n")) << o.out;
  }

  static Workplace* place_;
};

Workplace* Submissions::place_ = nullptr;

TEST_F(Submissions, AreVerified) {
  const Outcome o = run({.args = {"verify", archive()}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_TRUE(o.out.ends_with("VERIFIED\n")) << o.out;
  EXPECT_NE(o.out.find("  unofficial: division unranked: the deck is not one of"),
            std::string::npos)
      << o.out;
}

TEST_F(Submissions, WithAFigureThatWasChangedAreRefused) {
  const auto report = [](const char* pointer, const Json& value) {
    return with_report([&](Json& r) { r[Json::json_pointer(pointer)] = value; });
  };
  expect_refused(report("/fom/value", 1e9), "tokens_per_s: the report says");
  expect_refused(report("/step_seconds/timed_total", 1e-6), "tokens_per_s: the report says");
  expect_refused(report("/step_seconds/p50", 1e-6), "p50 of the steps");
  expect_refused(report("/loss/last", 0.5), "last loss");
  expect_refused(report("/memory/device/predicted_peak", 1), "predicted_peak of device memory");
  expect_refused(report("/memory/device/measured_peak", 1), "measured_peak of device memory");
  expect_refused(report("/memory/system/excess", std::int64_t{1} << 40), "the allowance");
  expect_refused(report("/memory/system/allowance", std::int64_t{1} << 40),
                 "the allowance of the system's memory");
  expect_refused(report("/collectives/all_gather/measured/calls", 1), "calls of all_gather");
  expect_refused(report("/collectives/all_gather/predicted/bytes", 1), "bytes of all_gather");
  expect_refused(report("/collectives/send", Json::object()), "the plan has no send");
  expect_refused(report("/plan_hash", "0123456789abcdef"), "plan_hash");
  expect_refused(report("/deck_hash", "0123456789abcdef"), "deck_hash");
  expect_refused(report("/world", 3), "recomputed");
  expect_refused(report("/stage", 3), "stage");
  expect_refused(report("/class", "official"), "class official");
  expect_refused(report("/result", "INVALID"), "result: the run ended INVALID; only a VALID run");
  expect_refused(report("/unofficial_reasons", Json::array()),
                 "unofficial_reasons: the report says nothing, recomputed it is ");
  expect_refused(report("/checks/0/state", "fail"), "a check failed");
  expect_refused(report("/checks", Json::array()), "the report has no check");
  expect_refused(report("/environment/SHARDMARK_FAULT", "leak"), "SHARDMARK_FAULT");
  expect_refused(report("/deck/model/layers", 3), "deck.json is not the deck");
  expect_refused(report("/deck", "none"), "refused: ");
}

TEST_F(Submissions, WithoutAFigureAreRefused) {
  for (const char* name : {"fom", "world", "deck", "plan_hash", "memory", "collectives", "checks",
                           "step_seconds", "profile"})
    expect_refused(with_report([&](Json& r) { r.erase(name); }), "refused: ");
}

TEST_F(Submissions, WithOtherLossesAreRefused) {
  const auto losses = [](const std::function<std::string(std::string)>& change) {
    return changed([&](ArchiveFiles& files) {
      files["runs/1/losses.csv"] = change(files.at("runs/1/losses.csv"));
    });
  };
  expect_refused(
      losses([](const std::string& t) { return t.substr(0, t.rfind('\n', t.size() - 2) + 1); }),
      "losses.csv has");
  expect_refused(losses([](const std::string& t) { return t + "x\n"; }), "is not a number");
  expect_refused(losses([](const std::string&) { return std::string("a,b\n"); }), "the first line");
}

TEST_F(Submissions, WithAnotherPlanOrDeckAreRefused) {
  expect_refused(changed([](ArchiveFiles& f) { f["runs/1/plan.txt"] += "\n"; }), "plan.txt");
  expect_refused(changed([](ArchiveFiles& f) { f["runs/1/deck.json"] = "{}"; }), "deck.json");
}

TEST_F(Submissions, ThatAreNoWholeArchiveAreErrors) {
  ArchiveFiles files = read_archive(archive());
  files["runs/1/losses.csv"] += "\n";
  const std::string path = place_->path("stale.zip");
  write_archive(path, files);
  const Outcome stale = run({.args = {"verify", path}});
  EXPECT_EQ(stale.status, 4);
  EXPECT_NE(stale.err.find("checksum is wrong"), std::string::npos) << stale.err;
  const std::string bytes = read_text(archive());
  for (const std::string& damaged :
       {bytes.substr(0, bytes.size() / 2), std::string("PK"), std::string()}) {
    const Outcome o = run({.args = {"verify", place_->write("damaged.zip", damaged)}});
    EXPECT_EQ(o.status, 4) << o.out;
    EXPECT_EQ(o.out, "REFUSED\n");
    EXPECT_EQ(lines_of(o.err).size(), 1U) << o.err;
  }
  EXPECT_EQ(run({.args = {"verify", place_->path("gone.zip")}}).status, 4);
  EXPECT_EQ(run({.args = {"submit", place_->path("gone"), "--out", path}}).status, 4);
  const Outcome form =
      run({.args = {"submit", place_->out(), "--out", path, "--form", "organization=x"}});
  EXPECT_EQ(form.status, 2);
  EXPECT_NE(form.err.find("did you mean organisation"), std::string::npos) << form.err;
}

// A program without its decks would call every division wrong.
TEST_F(Submissions, AreNotJudgedByAProgramWithoutItsDecks) {
  const std::string alone = place_->path("shardmark");
  std::filesystem::copy_file(SHARDMARK_TEST_PROGRAM, alone);
  const std::string said = place_->path("said.txt");
  const int status = std::system((alone + " verify " + archive() + " 2> " + said).c_str());
  EXPECT_EQ(WEXITSTATUS(status), 2);
  EXPECT_NE(read_text(said).find("install the program again"), std::string::npos);
}

TEST_F(Submissions, AreInATable) {
  const Outcome o = run({.args = {"table", archive(), "--out", place_->path("ranking")}});
  EXPECT_EQ(o.status, 0) << o.out << o.err;
  EXPECT_TRUE(o.out.starts_with("Not ranked, because a place needs 5 official runs")) << o.out;
  EXPECT_NE(
      o.out.find("is unofficial: division unranked: the deck is not one of the shipped decks"),
      std::string::npos)
      << o.out;
  for (const std::string& line : lines_of(o.out)) EXPECT_LE(line.size(), 160U) << line;
  const std::string csv = read_text(place_->path("ranking/table.csv"));
  EXPECT_NE(csv.find("\"The Centre\""), std::string::npos) << csv;
  EXPECT_NE(read_text(place_->path("ranking/table.html")).find("The Centre"), std::string::npos);
  const std::string wrong = with_report([](Json& r) { r["fom"]["value"] = 1e9; });
  const Outcome refused = run({.args = {"table", archive(), wrong}});
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.out.find("left out: "), std::string::npos) << refused.out;
}

}  // namespace
}  // namespace shardmark::test::submission_test
