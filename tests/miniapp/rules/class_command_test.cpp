// SPDX-License-Identifier: Apache-2.0
// The class of a run is the same at its start, at its end, in `submit` and in `verify`, and cannot
// be edited. No time is checked: the runs are too short to be official, and say so.
#include <algorithm>
#include <filesystem>

#include <gtest/gtest.h>

#include <tests/miniapp/tools/submission/mended_archive.hpp>
#include <tests/support/program.hpp>

namespace shardmark::test::class_command_test {
namespace {

const std::string inputs = SHARDMARK_TEST_INPUTS;

// A run of one rank, and what it said of its class.
struct Ran {
  Outcome outcome;
  std::string start, end;
  Json report;
};

Ran train(const Workplace& place, const std::string& deck, const std::vector<std::string>& more) {
  std::vector<std::string> args{"run", deck, "--out", place.out()};
  args.insert(args.end(), more.begin(), more.end());
  Ran ran{run({.args = args}), "", "", {}};
  EXPECT_EQ(ran.outcome.status, 0) << ran.outcome.out << ran.outcome.err;
  for (const std::string& line : lines_of(ran.outcome.out)) {
    if (line.starts_with("  class ")) ran.start = line;
    if (line.starts_with("CLASS=")) ran.end = line;
  }
  ran.report = place.report();
  return ran;
}

// Packs the run, and verifies the archive.
void expect_verified(const Workplace& place) {
  const Outcome packed = run({.args = {"submit", place.out(), "--out", place.path("a.zip")}});
  EXPECT_EQ(packed.status, 0) << packed.out << packed.err;
  const Outcome verified = run({.args = {"verify", place.path("a.zip")}});
  EXPECT_EQ(verified.status, 0) << verified.out << verified.err;
}

Outcome verify_edited(const Workplace& place, const std::function<void(Json& report)>& change) {
  ArchiveFiles files = read_archive(place.path("a.zip"));
  change_run(files, "runs/1", [&](Json& report, std::string&) {
    change(report);
    files["runs/1/deck.json"] = report.at("deck").dump(2, ' ', true);
  });
  write_archive(place.path("edited.zip"), files);
  return run({.args = {"verify", place.path("edited.zip")}});
}

void claim_official(Json& report) {
  report["class"] = "official";
  report["unofficial_reasons"] = Json::array();
  report["division"] = {{"name", "as-is"}, {"reasons", Json::array()}};
}

const std::vector<std::string> brief{"--set", "run.steps=2", "--set", "run.warmup=2"};

TEST(RunClass, FreeKeysAndACopyOfTheTextStayAsIs) {
  const Workplace place;
  Json deck = Json::parse(read_text(inputs + "/gpt-tiny-z3.json"), nullptr, true, true);
  deck["data"]["path"] = place.write("same.txt", read_text(inputs + "/text.txt"));
  deck["run"]["steps"] = 450;
  deck["deepspeed"]["zero_optimization"]["reduce_bucket_size"] = 5000000;
  const Ran ran = train(place, place.write("mine.json", deck.dump()), brief);
  const std::string standing =
      "2 warm-up steps, at least 3 are required; 2 timed steps, at least 20 are required";
  EXPECT_EQ(ran.start, "  class      unofficial (" + standing + ")");
  EXPECT_TRUE(ran.end.starts_with("CLASS=unofficial (" + standing + "; ")) << ran.end;
  EXPECT_TRUE(ran.end.ends_with(" s timed, at least 60 are required)")) << ran.end;
  EXPECT_EQ(ran.report.at("division").at("name"), "as-is");
  EXPECT_EQ(ran.report.at("overrides"), (Json{"run.steps=2", "run.warmup=2"}));
  EXPECT_EQ(ran.report.at("data").at("bytes"), std::filesystem::file_size(inputs + "/text.txt"));
  EXPECT_NE(ran.outcome.out.find("run the same command with --set run.steps="), std::string::npos);
  EXPECT_NE(ran.outcome.out.find("At the pace of the warm-up"), std::string::npos);
  expect_verified(place);
}

TEST(RunClass, AnotherTextIsAnotherDeck) {
  const Workplace place;
  Json deck = Json::parse(read_text(inputs + "/gpt-tiny-z3.json"), nullptr, true, true);
  std::string text = read_text(inputs + "/text.txt");
  text.back() ^= 1;
  deck["data"]["path"] = place.write("other.txt", text);
  deck.erase("expect");
  const Ran ran = train(place, place.write("mine.json", deck.dump()), brief);
  EXPECT_NE(ran.start.find("division unranked: data.path: a text with hash "), std::string::npos)
      << ran.start;
  EXPECT_NE(ran.end.find("division unranked: data.path: a text with hash "), std::string::npos)
      << ran.end;
  expect_verified(place);
  const Outcome edited = verify_edited(place, [](Json& report) { claim_official(report); });
  EXPECT_EQ(edited.status, 1);
  EXPECT_NE(edited.out.find("class official: division unranked: data.path"), std::string::npos)
      << edited.out;
}

TEST(RunClass, AnEditedClassIsRefused) {
  const Workplace place;
  std::vector<std::string> sets = brief;
  for (const char* set : {"deepspeed.zero_optimization.stage=2", "expect={}"})
    sets.insert(sets.end(), {"--set", set});
  const Ran ran = train(place, inputs + "/gpt-tiny-z3.json", sets);
  const std::string change = "deepspeed.zero_optimization.stage: 2 instead of 3";
  EXPECT_NE(ran.start.find(change), std::string::npos) << ran.start;
  EXPECT_NE(ran.end.find(change), std::string::npos) << ran.end;
  expect_verified(place);
  const Outcome claimed = verify_edited(place, claim_official);
  EXPECT_EQ(claimed.status, 1);
  EXPECT_NE(claimed.out.find("class official: division unranked: " + change), std::string::npos)
      << claimed.out;
  const Outcome restored = verify_edited(place, [](Json& report) {
    claim_official(report);
    report["deck"]["deepspeed"]["zero_optimization"]["stage"] = 3;
    report["deck_hash"] = hash_hex(report["deck"].dump(2, ' ', true));
  });
  EXPECT_EQ(restored.status, 1);
  EXPECT_NE(restored.out.find("overrides: the deck has other values"), std::string::npos)
      << restored.out;
  const Outcome fewer = verify_edited(place, [](Json& report) {
    report["unofficial_reasons"].erase(report["unofficial_reasons"].size() - 1);
  });
  EXPECT_EQ(fewer.status, 1);
  EXPECT_NE(fewer.out.find("unofficial_reasons"), std::string::npos) << fewer.out;
}

}  // namespace
}  // namespace shardmark::test::class_command_test
