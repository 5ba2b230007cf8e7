// SPDX-License-Identifier: Apache-2.0
// `compare` on runs of one deck with several numbers of ranks: which kind of scaling it is follows
// from the reports, speed-up and efficiency refer to the fewest ranks whatever the order, models of
// different sizes are compared by tokens per second times parameters, and what cannot be compared
// is said.
#include <algorithm>

#include <gtest/gtest.h>

#include <tests/support/markup.hpp>
#include <tests/support/pattern.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::compare_command_test {
namespace {

struct Run {
  int ranks = 1, batch = 8;  // samples per step of all ranks
  double rate = 1000;        // tokens per second
  std::int64_t parameters = 1000000;
  Json patch = Json::object();  // of the report
};

// A report with what a comparison reads.
std::string report(const Workplace& place, const std::string& name, const Run& r) {
  Json ranks = Json::array();
  for (int i = 0; i < r.ranks; ++i)
    ranks.push_back({{"host", "node" + std::to_string(i / 2)}, {"processor", "p"}, {"cores", "0"}});
  Json json{{"name", "d"},
            {"result", "VALID"},
            {"class", "official"},
            {"fom", {{"name", "tokens_per_s"}, {"value", r.rate}}},
            {"world", r.ranks},
            {"parameters", r.parameters},
            {"batch", {{"train_batch_size", r.batch}}},
            {"seconds_per_step", {{"exposed_communication", r.ranks == 1 ? 1e-6 : 0.02}}},
            {"step_seconds", {{"p50", 16.0 * r.batch / r.rate}}},
            {"ranks", ranks},
            {"warnings", Json::array()},
            {"deck",
             {{"name", "d"},
              {"model", {{"family", "gpt2"}, {"layers", 2}, {"sequence", 16}}},
              {"run", {{"schedule", "deepspeed"}}}}}};
  json.merge_patch(r.patch);
  return place.write(name + ".json", json.dump());
}

Json compared(std::vector<std::string> files) {
  files.insert(files.begin(), "compare");
  files.insert(files.end(), {"--format", "json"});
  const Outcome o = run({.args = files});
  EXPECT_EQ(o.status, 0) << o.err;
  return Json::parse(o.out);
}

std::string text_of(std::vector<std::string> files) {
  files.insert(files.begin(), "compare");
  const Outcome o = run({.args = files});
  EXPECT_EQ(o.status, 0) << o.err;
  return o.out;
}

bool mentions(const Json& sentences, const std::string& part) {
  return std::any_of(sentences.begin(), sentences.end(), [&](const Json& s) {
    return s.get<std::string>().find(part) != std::string::npos;
  });
}

TEST(Scaling, IsStrongIfAllRanksShareTheBatch) {
  const Workplace place;
  const std::string one = report(place, "one", {1, 8, 1000}),
                    two = report(place, "two", {2, 8, 1800}),
                    four = report(place, "four", {4, 8, 2000});
  const Json c = compared({four, one, two});
  ASSERT_EQ(c.at("scaling").size(), 1U) << c;
  const Json s = c.at("scaling").at(0);
  EXPECT_EQ(s.at("kind"), "strong");
  EXPECT_EQ(s.at("merit"), "tokens_per_s");
  EXPECT_EQ(s.at("reference_ranks"), 1);
  ASSERT_EQ(s.at("points").size(), 3U);
  const double speedups[]{1, 1.8, 2}, efficiencies[]{1, 0.9, 0.5};
  for (std::size_t i = 0; i < 3; ++i) {
    const Json p = s.at("points").at(i);
    EXPECT_EQ(p.at("ranks"), 1 << i);
    EXPECT_DOUBLE_EQ(p.at("speedup"), speedups[i]);
    EXPECT_DOUBLE_EQ(p.at("efficiency"), efficiencies[i]);
    EXPECT_DOUBLE_EQ(p.at("ideal"), 1 << i);
    EXPECT_EQ(p.at("nodes"), i < 2 ? 1 : 2);
  }
  EXPECT_DOUBLE_EQ(s.at("points").at(1).at("exposed_communication_share"), 0.02 * 1800 / 128);
  EXPECT_TRUE(c.at("objections").empty()) << c.at("objections");
  EXPECT_EQ(compared({one, two, four}).at("scaling"), c.at("scaling"));
}

TEST(Scaling, IsWeakIfEveryRankHasTheSameBatch) {
  const Workplace place;
  const Json s =
      compared({report(place, "one", {1, 4, 1000}), report(place, "three", {3, 12, 2400})})
          .at("scaling")
          .at(0);
  EXPECT_EQ(s.at("kind"), "weak");
  EXPECT_DOUBLE_EQ(s.at("points").at(1).at("efficiency"), 0.8);
  EXPECT_EQ(s.at("models_differ"), false);
}

TEST(Scaling, ComparesModelsThatDifferByTokensTimesParameters) {
  const Workplace place;
  const Json fit{{"deck", {{"model", {{"layers", nullptr}, {"fit", 0.8}}}}}};
  Json four = fit;
  four["fit"] = {{"layers", 9}};
  const std::vector<std::string> files{report(place, "one", {1, 4, 1000, 1000000, fit}),
                                       report(place, "four", {4, 16, 1000, 3000000, four})};
  const Json c = compared(files);
  const Json s = c.at("scaling").at(0);
  EXPECT_EQ(s.at("kind"), "weak");
  EXPECT_EQ(s.at("merit"), "parameter_tokens_per_s");
  EXPECT_DOUBLE_EQ(s.at("points").at(1).at("merit"), 3e9);
  EXPECT_DOUBLE_EQ(s.at("points").at(1).at("speedup"), 3);
  EXPECT_DOUBLE_EQ(s.at("points").at(1).at("efficiency"), 0.75);
  EXPECT_TRUE(mentions(s.at("notes"), "the models differ")) << s;
  EXPECT_TRUE(mentions(s.at("notes"), "9 layers with 3 million parameters on 4 ranks")) << s;
  const std::string text = text_of(files);
  for (const std::string& line : lines_of(text))  // no per cent of what cannot be compared
    EXPECT_FALSE(line.starts_with("tokens_per_s") && line.find('%') != std::string::npos) << line;
}

TEST(Scaling, TakesTheMedianOfRepeatedRunsAndShowsTheirRange) {
  const Workplace place;
  std::vector<std::string> files{report(place, "one", {1, 8, 1000})};
  for (const double rate : {1500.0, 1900.0, 1600.0})
    files.push_back(report(place, "two" + std::to_string(rate), {2, 8, rate}));
  const Json p = compared(files).at("scaling").at(0).at("points").at(1);
  EXPECT_EQ(p.at("runs"), 3);
  EXPECT_EQ(p.at("tokens_per_s"), 1600);
  EXPECT_EQ(p.at("tokens_per_s_lowest"), 1500);
  EXPECT_EQ(p.at("tokens_per_s_highest"), 1900);
  EXPECT_DOUBLE_EQ(p.at("speedup"), 1.6);
}

TEST(Scaling, LeavesOutRunsThatProveNothing) {
  const Workplace place;
  const Json s = compared({report(place, "one", {1, 8, 1000}), report(place, "two", {2, 8, 1500}),
                           report(place, "bad", {2, 8, 9000, 1000000, {{"result", "INVALID"}}})})
                     .at("scaling")
                     .at(0);
  EXPECT_EQ(s.at("points").at(1).at("runs"), 1);
  EXPECT_TRUE(mentions(s.at("notes"), "bad.json is left out")) << s;
}

TEST(Scaling, OfABatchWithoutARuleHasNoSpeedUp) {
  const Workplace place;
  const Json s = compared({report(place, "one", {1, 8, 1000}), report(place, "two", {2, 12, 1500})})
                     .at("scaling")
                     .at(0);
  EXPECT_EQ(s.at("kind"), "neither");
  EXPECT_TRUE(s.at("points").at(1).at("speedup").is_null());
  EXPECT_NE(s.at("sentence").get<std::string>().find("8 on"), std::string::npos);
}

TEST(Scaling, DoesNotMixDifferentWork) {
  const Workplace place;
  const auto stage = [](int z) {
    return Json{{"deck", {{"deepspeed", {{"zero_optimization", {{"stage", z}}}}}}}};
  };
  std::vector<std::string> files;
  for (const int z : {2, 3})
    for (const int ranks : {1, 2})
      files.push_back(report(place, "z" + std::to_string(z) + std::to_string(ranks),
                             {ranks, 8, 1000.0 * ranks, 1000000, stage(z)}));
  EXPECT_EQ(compared(files).at("scaling").size(), 2U);
  const Json apart = compared({files[0], files[3]});
  EXPECT_TRUE(apart.at("scaling").empty());
  EXPECT_TRUE(mentions(apart.at("objections"), "the numbers of ranks differ")) << apart;
  EXPECT_TRUE(mentions(apart.at("objections"), "deepspeed.zero_optimization.stage")) << apart;
  const Json left = compared({files[0], files[1], files[3]});
  EXPECT_TRUE(mentions(left.at("objections"), "z32.json is in no scaling series")) << left;
}

TEST(Scaling, NamesUnofficialRunsInOneSentence) {
  const Workplace place;
  const Json unofficial{{"class", "unofficial"}};
  const Json objections = compared({report(place, "a", {1, 8, 1000, 1000000, unofficial}),
                                    report(place, "b", {2, 8, 1500, 1000000, unofficial}),
                                    report(place, "c", {4, 8, 1500})})
                              .at("objections");
  EXPECT_EQ(objections, (Json{"a.json, b.json are unofficial"}));
}

TEST(Scaling, RepeatsTheWarningsOfRuns) {
  const Workplace place;
  const Json shared{{"warnings", {"ranks 0,1 share cores"}}};
  const Json s = compared({report(place, "one", {1, 8, 1000}),
                           report(place, "two", {2, 8, 1500, 1000000, shared})})
                     .at("scaling")
                     .at(0);
  EXPECT_TRUE(mentions(s.at("notes"), "2 ranks: ranks 0,1 share cores")) << s;
}

TEST(Scaling, OfPredictionsIsTheSame) {
  const Workplace place;
  std::vector<std::string> files;
  for (const std::string ranks : {"8,16", "64"}) {
    const Outcome o =
        run({.args = {"predict", place.deck(3, {{"memory", {{"device_gib", 16}}}}), "--machine",
                      "dgx-a100-80gb", "--ranks", ranks, "--format", "json"}});
    ASSERT_EQ(o.status, 0) << o.err;
    files.push_back(place.write("p" + ranks + ".json", o.out));
  }
  const Json c = compared({files[1], files[0]});
  ASSERT_EQ(c.at("scaling").size(), 1U) << c;
  const Json s = c.at("scaling").at(0);
  EXPECT_EQ(s.at("predicted"), true);
  EXPECT_EQ(s.at("points").size(), 3U);
  EXPECT_EQ(s.at("points").at(2).at("nodes"), 8);
  EXPECT_GT(s.at("points").at(0).at("parameters"), 0);
  EXPECT_TRUE(mentions(s.at("notes"), "relative to 8 ranks")) << s;
}

std::string page_of(const Workplace& place, std::vector<std::string> files) {
  files.insert(files.begin(), "compare");
  files.insert(files.end(), {"--html", place.path("c.html")});
  const Outcome o = run({.args = files});
  EXPECT_EQ(o.status, 0) << o.err;
  std::string page = read_text(place.path("c.html"));
  EXPECT_EQ(malformed(page), "");
  return page;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
    ++found;
  return found;
}

TEST(Scaling, IsDrawnAgainstTheIdeal) {
  const Workplace place;
  const std::string one = report(place, "one<b>&", {1, 8, 1000});
  const std::string page =
      page_of(place, {one, report(place, "two", {2, 8, 1800}), report(place, "six", {6, 8, 4800})});
  EXPECT_EQ(count(page, "class=\"series5 predicted\""), 1U);  // the ideal line
  EXPECT_EQ(count(page, "class=\"series5 ideal\""), 1U);      // 100 %
  EXPECT_NE(page.find("6 ranks: speed-up 4.8 of 6, efficiency 80.0 %"), std::string::npos);
  EXPECT_EQ(count(page, ">4</text>"), 1U);  // a linear axis up to 6
  EXPECT_GE(count(page, "<span class=\"bar\">"), 6U);
  // From a factor of more than 8 on, both axes have powers of two.
  const std::string wide = page_of(place, {one, report(place, "many", {64, 8, 16000})});
  EXPECT_EQ(count(wide, ">32</text>"), 1U);
  EXPECT_EQ(count(wide, ">30</text>"), 0U);
}

TEST(Scaling, WithoutASpeedUpIsATable) {
  const Workplace place;
  const std::string page =
      page_of(place, {report(place, "one", {1, 8, 1000}), report(place, "two", {2, 12, 1500})});
  EXPECT_NE(page.find("Neither strong nor weak scaling"), std::string::npos);
  EXPECT_EQ(count(page, "<svg"), 0U);
}

TEST(Scaling, APredictionSaysThatModelsDiffer) {
  const Outcome o =
      run({.args = {"predict", "fit-weak-scaling", "--machine", "dgx-h100", "--ranks", "1,2"}});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find("The models differ, from"), std::string::npos) << o.out;
}

TEST(Relations, OfAComparisonAreReadable) {
  const Workplace place;
  const std::string text =
      text_of({report(place, "one", {1, 8, 1000}), report(place, "two", {2, 8, 1500})});
  EXPECT_NE(text.find("(20 000 times)"), std::string::npos) << text;  // 20 ms to 1 us
}

TEST(Relations, SayWhichFiguresAreOfTheWholeRun) {
  const Workplace place;
  const Json calls{{"collectives", {{"all_gather", {{"measured", {{"calls", 12}}}}}}}};
  const std::string text = text_of(
      {report(place, "a", {.patch = calls}), report(place, "b", {.rate = 900, .patch = calls})});
  EXPECT_NE(text.find("all_gather calls, whole run"), std::string::npos) << text;
}

TEST(Relations, GiveBandwidthsInUnitsThatLeaveFewDigits) {
  const Workplace place;
  const auto text_for = [&](double gb_per_s) {
    const Json patch{{"collectives", {{"all_gather", {{"bus_gb_per_s", gb_per_s}}}}}};
    return text_of({report(place, "a", {.patch = patch}), report(place, "b", {.patch = patch})});
  };
  for (const auto& [rate, words] :
       {std::pair{6.9513e-05, "69.51 kB/s"}, {0.25, "250 MB/s"}, {430.2, "430.2 GB/s"}}) {
    const std::string text = text_for(rate);
    EXPECT_NE(text.find(words), std::string::npos) << text;
    EXPECT_EQ(text.find("e-0"), std::string::npos) << text;
  }
}

// A value has its unit beside it, so that its name has none: "step p50  364 ms".
TEST(Relations, NameAUnitOnce) {
  const Workplace place;
  const std::string text = text_of({report(place, "a", {}), report(place, "b", {})});
  EXPECT_TRUE(contains(text, "\nstep p50  +[0-9.]+ m?s")) << text;
  EXPECT_FALSE(contains(text, "(^|\n)[^\n]*, (s|bytes)  ")) << text;
}

TEST(Relations, OfAFileThatIsNoReportAreRefusedAsThat) {
  const Workplace place;
  const std::string good = report(place, "a", {});
  for (const char* text :
       {"step,loss,grad_norm\n0,1,2\n", "FOM: 12\n", "---\nkey: value\n", "[]"}) {
    const Outcome o = run({.args = {"compare", good, place.write("other.txt", text)}});
    EXPECT_EQ(o.status, 2) << o.out;
    EXPECT_NE(o.err.find("other.txt: neither report.json of a run nor"), std::string::npos)
        << o.err;
  }
}

}  // namespace
}  // namespace shardmark::test::compare_command_test
