// SPDX-License-Identifier: Apache-2.0
// The line that says what to do after a run names settings with which the next run is official.
#include <string>

#include <gtest/gtest.h>

#include <miniapp/measure/verdict.hpp>
#include <miniapp/report/report_text.hpp>
#include <miniapp/rules/official_rules.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::next_step_test {
namespace {

// A run that is official, unless it is changed.
struct Case {
  Deck deck = gpt2_deck(2);
  Result result;
  bool traced = false;

  Case() {
    deck.path = "mine.json";
    deck.run.warmup = 3, deck.run.steps = 100;
    deck.run.memory_mode = MemoryMode::pooled;
    result.timed_s = 60;
  }
  std::string line(const Observed& observed = {}) const {
    Result r = result;
    judge(deck, program(deck, 2, 0), observed, r);
    const UsedDeck shipped{{{"name", "mine"}, {"checkpoint", {{"benchmark", 10}}}}, std::nullopt};
    ClassFacts facts;
    facts.deck = deck, facts.traced = traced, facts.used = shipped;
    RunEnd& end = facts.end.emplace();
    end.timed_s = r.timed_s, end.write_s = r.checkpoints.timed_write_s;
    r.run_class = judge_class(facts, &shipped);
    return next_step(deck, r, "out");
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(NextStep, names_the_page_and_is_one_line) {
  const std::string line = Case().line();
  EXPECT_TRUE(line.starts_with("Next: open out/report.html; ")) << line;
  EXPECT_FALSE(contains(line, "deck_hash")) << line;
  EXPECT_FALSE(contains(next_step({}, {}, "a\nFOM tokens_per_s=1"), "\n"));
}

// The rules rank the median of five runs.
TEST(NextStep, of_an_official_run_is_four_more_and_a_submission) {
  const std::string line = Case().line();
  EXPECT_TRUE(contains(line, "run the same command 4 more times")) << line;
  EXPECT_TRUE(contains(line, "pack all 5 with `shardmark submit out DIR2 ...`")) << line;
}

TEST(NextStep, after_a_checkpoint_of_the_last_step_says_that_nothing_was_left) {
  Case run;
  run.result.rows.clear(), run.result.timed_s = 0;
  run.result.checkpoints.resumed_from = "step-103";
  EXPECT_TRUE(contains(run.line(), "nothing was left to do, because step-103 has all 103 steps"))
      << run.line();
  EXPECT_FALSE(contains(run.line(), "--set")) << run.line();
}

TEST(NextStep, leads_to_enough_steps) {
  for (const double timed_s : {0.001, 0.7, 6.8, 59.9})
    for (const std::int64_t steps : {1, 19, 50, 12345}) {
      Case run;
      run.result.timed_s = timed_s, run.deck.run.steps = steps;
      const std::string line = run.line();
      const std::string before = "run the same command with --set run.steps=";
      ASSERT_TRUE(contains(line, before)) << line;
      const auto asked = std::stoll(line.substr(line.find(before) + before.size()));
      EXPECT_GE(asked, OfficialRules::steps) << line;
      const double seconds = timed_s / double(steps) * double(asked);
      EXPECT_GE(seconds, 1.5 * OfficialRules::timed_s) << "its pace may be higher\n" << line;
      const bool more = asked > OfficialRules::steps;
      EXPECT_TRUE(!more || seconds < 1.7 * OfficialRules::timed_s) << line;
      EXPECT_FALSE(contains(line, "CLASS")) << line;
    }
}

TEST(NextStep, names_every_reason_for_an_unofficial_figure) {
  Case run;
  run.deck.run.warmup = 1;
  EXPECT_TRUE(run.line().ends_with("with --set run.warmup=3")) << run.line();
  run.deck.run.steps = 19;
  EXPECT_TRUE(run.line().ends_with("with --set run.steps=29 --set run.warmup=3")) << run.line();
  run.traced = true;
  EXPECT_TRUE(run.line().ends_with(", and remove what else CLASS names"));
  Case traced;
  traced.traced = true;
  EXPECT_TRUE(traced.line().ends_with("; for an official figure remove what CLASS names"));
  EXPECT_TRUE(contains(traced.line(), "shardmark sweep mine.json --vary "));
}

TEST(NextStep, without_timed_steps_asks_for_the_least) {
  Case run;
  run.deck.run.steps = 0, run.result.timed_s = 0;
  EXPECT_TRUE(run.line().ends_with("with --set run.steps=20")) << run.line();
}

TEST(NextStep, of_a_storage_benchmark_is_about_checkpoints) {
  Case run;
  run.deck.run.steps = 0, run.result.timed_s = 0;
  run.deck.checkpoint.benchmark = 9;
  run.result.checkpoints.timed_write_s.assign(9, 10.0);
  EXPECT_TRUE(run.line().ends_with("with --set checkpoint.benchmark=45")) << run.line();
  EXPECT_FALSE(contains(run.line(), "run.steps")) << run.line();
}

TEST(NextStep, of_an_invalid_run_explains_it) {
  Observed wrong;
  wrong.self_check = "rank 0: wrong";
  EXPECT_TRUE(contains(Case().line(wrong), "docs/valid.md")) << Case().line(wrong);
  Case stopped;
  stopped.result.stopped = "stopped by SIGTERM after step 3";
  EXPECT_TRUE(contains(stopped.line(), "start it again")) << stopped.line();
}

}  // namespace
}  // namespace shardmark::test::next_step_test
