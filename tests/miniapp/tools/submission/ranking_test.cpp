// SPDX-License-Identifier: Apache-2.0
// A table ranks the medians of five official runs among entries that did the same work, and lists
// all others apart without a place.
#include <sstream>

#include <gtest/gtest.h>

#include <miniapp/tools/submission/ranking.hpp>
#include <miniapp/tools/submission/repetitions.hpp>

namespace shardmark::test::ranking_test {
namespace {

std::vector<Ranked> runs_of(const std::string& file, const std::vector<double>& values,
                            const VerifiedRun& like = {}) {
  std::vector<Ranked> runs;
  for (const double value : values) {
    Ranked r{.organisation = "Centre of " + file,
             .system = "Box",
             .processor = "CPU",
             .file = file,
             .run = like};
    if (like.name.empty()) {
      r.run.name = "llama-1b";
      r.run.fom_name = "tokens_per_s";
      r.run.official = true;
      r.run.ranks = 4;
      r.run.parameters = 1'235'814'400;
      r.run.tokens_per_step = 8192;
      r.run.deck_hash = "d";
    }
    r.run.fom = value;
    r.run.date = "2026-11-26";
    r.run.nodes = 1;
    runs.push_back(std::move(r));
  }
  return runs;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

VerifiedRun official() {
  return runs_of("", {1})[0].run;
}

Ranking ranked(const std::vector<std::vector<Ranked>>& archives) {
  std::vector<Ranked> all;
  for (const auto& runs : archives) all.insert(all.end(), runs.begin(), runs.end());
  return rank(all);
}

TEST(Ranking, IsByTheMedianOfFiveRuns) {
  const Ranking r =
      ranked({runs_of("a", {10, 90, 20, 30, 1000}), runs_of("b", {40, 41, 42, 43, 44})});
  ASSERT_EQ(r.ranked.size(), 2U);
  EXPECT_EQ(r.ranked[0].file, "b");
  EXPECT_EQ(r.ranked[0].median(), 42);
  EXPECT_EQ(r.ranked[0].place, 1U);
  EXPECT_EQ(r.ranked[0].per_rank(), 10.5);
  EXPECT_EQ(r.ranked[1].median(), 30) << "one lucky run does not count";
  EXPECT_EQ(r.ranked[1].place, 2U);
  EXPECT_TRUE(r.unranked.empty());
  EXPECT_EQ(ranked({runs_of("c", {1, 2, 3, 4, 5, 6})}).ranked[0].median(), 3.5);
}

TEST(Ranking, LeavesOutFewerRunsAndUnofficialOnes) {
  VerifiedRun unofficial = official();
  unofficial.official = false;
  const Ranking r = ranked({runs_of("few", {100, 100, 100, 100}),
                            runs_of("trial", {200, 200, 200, 200, 200}, unofficial),
                            runs_of("good", {1, 1, 1, 1, 1})});
  ASSERT_EQ(r.ranked.size(), 1U);
  EXPECT_EQ(r.ranked[0].file, "good");
  ASSERT_EQ(r.unranked.size(), 2U);
  EXPECT_EQ(r.unranked[0].why_not(), "4 of 5 runs");
  EXPECT_EQ(r.unranked[1].why_not(), "unofficial");
  EXPECT_EQ(r.unranked[0].place, 0U);
}

// Five runs of two archives, or of two decks of one name, are not five repetitions.
TEST(Ranking, NeedsFiveRunsOfOneArchiveAndDeck) {
  VerifiedRun other = official();
  other.used.text = {{"name", "llama-1b"}, {"run", {{"seed", 2}}}};
  EXPECT_TRUE(ranked({runs_of("a", {1, 2, 3}), runs_of("b", {1, 2})}).ranked.empty());
  EXPECT_TRUE(ranked({runs_of("a", {1, 2, 3}), runs_of("a", {1, 2}, other)}).ranked.empty());
}

// Where a copy of a deck and its text lie, and what the division as-is leaves free, is no other
// work.
TEST(Ranking, TakesACopyOfADeckForTheSame) {
  VerifiedRun one = official(), copy = official();
  one.used = {{{"name", "llama-1b"},
               {"data", {{"source", "file"}, {"path", "text.txt"}}},
               {"run", {{"steps", 20}}}},
              FileIdentity{"0123456789abcdef", 9}};
  copy.used = one.used;
  copy.used.text["data"]["path"] = "/elsewhere/same.txt";
  copy.used.text["run"]["steps"] = 30;
  copy.deck_hash = "e";
  const Ranking r = ranked({runs_of("a", {1, 2, 3}, one), runs_of("a", {4, 5}, copy)});
  ASSERT_EQ(r.ranked.size(), 1U);
  EXPECT_EQ(r.ranked[0].values.size(), 5U);
  EXPECT_EQ(r.ranked[0].deck_hashes, (std::vector<std::string>{"d", "e"}));
  copy.used.data->hash = "another";
  EXPECT_TRUE(ranked({runs_of("a", {1, 2, 3}, one), runs_of("a", {4, 5}, copy)}).ranked.empty());
}

TEST(Ranking, RepeatsWhyARunIsUnofficial) {
  VerifiedRun brief = official();
  brief.official = false;
  brief.reasons = {"52.7 s timed, at least 60 are required", "timed steps are traced"};
  VerifiedRun briefer = brief;
  briefer.reasons = {"51.9 s timed, at least 60 are required"};
  const Ranking r =
      ranked({runs_of("trial.zip", {7, 8}, brief), runs_of("trial.zip", {9}, briefer)});
  ASSERT_EQ(r.unranked.size(), 1U);
  EXPECT_EQ(r.unranked[0].reasons, brief.reasons) << "each once, whatever its figure";
  for (const std::string& text : {ranking_text(r), ranking_csv(r), ranking_html(r)})
    for (const std::string& reason : brief.reasons)
      EXPECT_NE(text.find(reason), std::string::npos) << reason << "\n" << text;
}

TEST(Ranking, ComparesOnlyTheSameWork) {
  std::vector<std::vector<Ranked>> archives{runs_of("a", {5, 5, 5, 5, 5})};
  const auto add = [&](const char* file, const auto& change) {
    VerifiedRun run = official();
    change(run);
    archives.push_back(runs_of(file, {9, 9, 9, 9, 9}, run));
  };
  add("ranks", [](VerifiedRun& r) { r.ranks = 8; });
  add("layers", [](VerifiedRun& r) { r.parameters /= 2; });
  add("batch", [](VerifiedRun& r) { r.tokens_per_step *= 2; });
  add("division", [](VerifiedRun& r) { r.division.division = Division::tuned; });
  add("deck", [](VerifiedRun& r) { r.name = "llama-7b"; });
  add("figure", [](VerifiedRun& r) { r.fom_name = "checkpoint_write_gib_per_s"; });
  const Ranking r = ranked(archives);
  ASSERT_EQ(r.ranked.size(), 7U);
  for (const RankedEntry& entry : r.ranked) EXPECT_EQ(entry.place, 1U) << entry.file;
}

TEST(Ranking, GivesEqualMediansOnePlace) {
  const Ranking r = ranked({runs_of("a", {2, 2, 2, 2, 2}), runs_of("b", {2, 2, 2, 2, 2}),
                            runs_of("c", {1, 1, 1, 1, 1})});
  ASSERT_EQ(r.ranked.size(), 3U);
  EXPECT_EQ(r.ranked[0].place, 1U);
  EXPECT_EQ(r.ranked[1].place, 1U);
  EXPECT_EQ(r.ranked[2].place, 3U);
}

TEST(Ranking, IsReadableAsTextAndComplete) {
  VerifiedRun unofficial = official();
  unofficial.official = false;
  const Ranking r =
      ranked({runs_of("a-rather-long-name-of-an-archive.zip", {4200, 4300, 4250, 1, 2}),
              runs_of("trial.zip", {7}, unofficial)});
  const std::string text = ranking_text(r);
  for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 160U) << line;
  for (const char* part :
       {"llama-1b, as-is, 4 ranks: 1.24 billion parameters, 8192 tokens per step",
        "median tokens/s", "4200", "per rank", "1050", "2026-11-26", "Not ranked, because",
        "unofficial", "7 tokens/s", "  1.24 billion  "})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  const std::string csv = ranking_csv(r);
  EXPECT_EQ(lines_of(csv).size(), 3U) << csv;
  EXPECT_TRUE(
      csv.starts_with("place,deck,figure,value,ranks,per_rank,class,division,organisation,"
                      "system,processor,file,lowest,highest,runs,nodes,parameters,"))
      << csv;
  EXPECT_NE(csv.find("a-rather-long-name-of-an-archive.zip"), std::string::npos) << csv;
  EXPECT_NE(csv.find("4200"), std::string::npos) << csv;
}

// Names take the room that a row has, and no more.
TEST(Ranking, CutsNamesOnlyWhereARowWouldBeTooWide) {
  auto runs = runs_of("a-name-of-some-length.zip", {1, 2, 3, 4, 5});
  EXPECT_NE(ranking_text(rank(runs)).find("  a-name-of-some-length.zip\n"), std::string::npos);
  for (Ranked& r : runs) r.processor = std::string(90, 'p');
  const std::string text = ranking_text(rank(runs));
  EXPECT_NE(text.find("ppp..."), std::string::npos) << text;
  for (const std::string& line : lines_of(text)) EXPECT_LE(line.size(), 160U) << line;
}

TEST(Ranking, ShowsHowFastAStorageDeckReads) {
  VerifiedRun storage = official();
  storage.fom_name = "checkpoint_write_gib_per_s";
  auto runs = runs_of("disk.zip", {5, 5, 5, 5, 5}, storage);
  double rate = 30;
  for (Ranked& r : runs) r.run.read_gib_per_s = rate += 10;
  EXPECT_EQ(rank(runs).ranked[0].median_read(), 60);
  const std::string text = ranking_text(rank(runs)), csv = ranking_csv(rank(runs));
  EXPECT_NE(text.find("GiB/s read"), std::string::npos) << text;
  EXPECT_NE(text.find("  60  "), std::string::npos) << text;
  EXPECT_NE(lines_of(csv)[0].find(",read_gib_per_s"), std::string::npos) << csv;
  EXPECT_TRUE(lines_of(csv)[1].ends_with(",\"60\"")) << csv;
  EXPECT_NE(ranking_html(rank(runs)).find(">60 GiB/s read"), std::string::npos);
  runs.resize(2);
  EXPECT_NE(ranking_text(rank(runs)).find("5 GiB/s written, 45 read"), std::string::npos);
  EXPECT_EQ(ranking_text(rank(runs_of("a", {1, 1, 1, 1, 1}))).find("read"), std::string::npos);
}

TEST(Ranking, HasABarForEachRowOfThePage) {
  VerifiedRun unofficial = official();
  unofficial.official = false;
  const std::string page =
      ranking_html(ranked({runs_of("a", {2, 2, 2, 2, 2}), runs_of("<b>", {1, 1, 1, 1, 1}),
                           runs_of("trial", {7}, unofficial)}));
  std::size_t bars = 0;
  for (std::size_t at = page.find("class=\"bar\""); at != std::string::npos;
       at = page.find("class=\"bar\"", at + 1))
    ++bars;
  EXPECT_EQ(bars, 3U);
  EXPECT_NE(page.find("width:50.00%"), std::string::npos) << "half as long as the best";
  EXPECT_EQ(page.find("<b>"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
}

// Nobody draws the seed of another run's proof, whatever else was changed.
TEST(RunMarks, WithOneSeedAreOneRun) {
  SubmittedRun one, other;
  one.report = {{"run", {{"id", "01"}}}, {"proof", {{"seed", "00aa"}}}};
  other.report = {{"run", {{"id", "02"}}}, {"proof", {{"seed", "00aa"}}}};
  EXPECT_TRUE(same_run(run_mark(one), run_mark(other)));
  other.report["proof"]["seed"] = "00ab";
  EXPECT_FALSE(same_run(run_mark(one), run_mark(other)));
  other.report["run"]["id"] = "01";
  EXPECT_TRUE(same_run(run_mark(one), run_mark(other)));
}

}  // namespace
}  // namespace shardmark::test::ranking_test
