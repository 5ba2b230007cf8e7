// SPDX-License-Identifier: Apache-2.0
// VALID, from results that are written by hand: each requirement at its bound.
#include <cmath>
#include <limits>

#include <gtest/gtest.h>

#include <miniapp/measure/verdict.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::verdict_test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double inf = std::numeric_limits<double>::infinity();

// A run that just meets every requirement.
struct Case {
  Deck deck = gpt2_deck(2);
  Result result;
  Observed observed;

  Case() {
    deck.data.source = DataSource::markov;
    deck.run.warmup = 3, deck.run.steps = 20;
    deck.run.memory_mode = MemoryMode::pooled;
    result.timed_s = 60;
    for (int step = 0; step < 23; ++step) {
      LossRow& row = result.rows.emplace_back();
      row.step = step, row.loss = 5 - 0.1 * step, row.grad_norm = 1;
    }
  }
  Result judged() const {
    Result r = result;
    judge(deck, program(deck, 2, 0), observed, r);
    return r;
  }
};

TEST(Finite, every_loss_and_every_norm_of_an_update) {
  EXPECT_TRUE(Case().judged().valid());
  for (const double bad : {nan, inf, -inf})
    for (const std::size_t step : {std::size_t{0}, std::size_t{11}, std::size_t{22}}) {
      Case run;
      run.result.rows[step].loss = bad;
      EXPECT_NE(run.judged().invalid_reasons().find("at step " + std::to_string(step)),
                std::string::npos)
          << run.judged().invalid_reasons();
      Case norm;
      norm.result.rows[step].grad_norm = bad;
      EXPECT_FALSE(norm.judged().valid());
      norm.result.rows[step].skipped = true;  // an overflow, which has no finite norm
      EXPECT_TRUE(norm.judged().valid()) << norm.judged().invalid_reasons();
    }
}

// Losses that fall from 5 and stay at 4 after ten steps, in a run of 200.
TEST(LossDrop, of_a_longer_run_is_that_of_the_expected_steps) {
  Case run;
  run.result.rows.clear();
  run.deck.run.steps = 197;
  for (int step = 0; step < 200; ++step) {
    LossRow& row = run.result.rows.emplace_back();
    row.step = step, row.loss = step < 10 ? 5 : 4, row.grad_norm = 1;
  }
  run.deck.expect.loss_drop = 0.5;
  EXPECT_NE(run.judged().invalid_reasons().find("(first fifth)"), std::string::npos);
  run.deck.expect.steps = 50;
  EXPECT_TRUE(run.judged().valid()) << run.judged().invalid_reasons();
}

TEST(LossDrop, compares_the_first_and_the_last_fifth) {
  Case run;  // 23 rows: the means of rows 0 to 3 and 19 to 22 are 4.85 and 2.95
  run.deck.expect.loss_drop = 1.89;
  EXPECT_TRUE(run.judged().valid());
  run.deck.expect.loss_drop = 1.91;
  EXPECT_NE(run.judged().invalid_reasons().find("from 4.8500 (first fifth) to 2.9500"),
            std::string::npos);
  Case level;
  for (LossRow& row : level.result.rows) row.loss = 4;
  EXPECT_FALSE(level.judged().valid()) << "it must fall";
  level.result.rows.resize(19);
  EXPECT_TRUE(level.judged().valid()) << "too few steps to say";
}

TEST(LossDrop, applies_to_whole_runs_on_data_with_structure) {
  const auto fails = [](auto change) {
    Case run;
    for (LossRow& row : run.result.rows) row.loss = 4;
    run.result.rows.resize(20);
    change(run);
    return run.judged().invalid_reasons().find("loss_drop") != std::string::npos;
  };
  EXPECT_TRUE(fails([](Case&) {})) << "20 steps are enough";
  EXPECT_TRUE(fails([](Case& r) { r.deck.data.source = DataSource::file; }));
  EXPECT_FALSE(fails([](Case& r) { r.deck.data.source = DataSource::uniform; }));
  EXPECT_FALSE(fails([](Case& r) { r.deck.run.compute = Compute::none; }));
  EXPECT_FALSE(fails([](Case& r) { r.result.stopped = "stopped"; }));
  EXPECT_FALSE(fails([](Case& r) { r.result.checkpoints.resumed_from = "step-3"; }));
}

// The last step decides, at the bound, and only in the run for which the loss was given: 2 ranks
// with a micro-batch each.
TEST(ExpectedLoss, belongs_to_one_batch_and_to_whole_runs) {
  Case run;
  run.result.rows.back().loss = 2.75;
  run.deck.expect.loss = 3, run.deck.expect.tolerance = 0.25;
  EXPECT_TRUE(run.judged().valid()) << "the tolerance itself is allowed";
  run.deck.expect.tolerance = 0.24;
  run.deck.expect.train_batch_size = program(run.deck, 2, 0).batch.global;
  EXPECT_FALSE(run.judged().valid());
  Case other = run;
  ++other.deck.expect.train_batch_size;
  EXPECT_TRUE(other.judged().valid());
  run.result.stopped = "stopped by SIGTERM after step 23";
  EXPECT_EQ(run.judged().invalid_reasons(), "stopped by SIGTERM after step 23");
}

TEST(ExpectedLoss, is_that_of_the_last_step_within_the_tolerance) {
  Case run;
  run.deck.expect.loss = 2.9, run.deck.expect.tolerance = 0.11;
  EXPECT_TRUE(run.judged().valid());
  run.deck.expect.tolerance = 0.09;
  EXPECT_FALSE(run.judged().valid());
  run.deck.expect.loss = 2.7;
  EXPECT_FALSE(run.judged().valid());
  run.deck.expect.steps = 24;
  EXPECT_TRUE(run.judged().valid()) << "it was given for another run";
}

TEST(Updates, a_run_that_skips_all_steps_trains_nothing) {
  Case run;
  for (LossRow& row : run.result.rows) row.skipped = true;
  EXPECT_FALSE(run.judged().valid());
  run.result.rows[5].skipped = false;
  EXPECT_TRUE(run.judged().valid());
}

TEST(Updates, a_run_that_was_stopped_or_that_does_not_train_may_skip_all) {
  Case stopped;
  for (LossRow& row : stopped.result.rows) row.skipped = true;
  Case untrained = stopped;
  stopped.result.stopped = "stopped";
  EXPECT_EQ(stopped.judged().invalid_reasons(), "stopped");
  EXPECT_FALSE(stopped.judged().valid());
  untrained.deck.run.compute = Compute::none;
  EXPECT_TRUE(untrained.judged().valid());
}

TEST(Checks, a_fault_that_no_check_finds_is_invalid) {
  Case run;
  run.observed.injected = "SHARDMARK_FAULT=leak";
  EXPECT_EQ(run.judged().invalid_reasons().substr(0, 7), "fault: ");
  run.observed.memory_mismatch = "is wrong";
  EXPECT_EQ(run.judged().invalid_reasons(), "memory: is wrong");
}

TEST(Checks, what_was_not_replayed_is_not_wrong) {
  Case run;
  run.result.replay.unused.clear();
  run.result.replay.wrong = "differs";
  EXPECT_EQ(run.judged().invalid_reasons(), "replay: differs");
  run.result.replay.unused = "no memory";
  EXPECT_TRUE(run.judged().valid());
}

TEST(Checks, each_observation_fails_its_own) {
  const std::pair<std::string Observed::*, std::string> all[] = {
      {&Observed::memory_mismatch, "memory"}, {&Observed::calls_mismatch, "calls"},
      {&Observed::values_mismatch, "values"}, {&Observed::copies_mismatch, "copies"},
      {&Observed::excess, "system_memory"},   {&Observed::inputs, "inputs"},
      {&Observed::clocks, "clocks"},          {&Observed::self_check, "self_check"}};
  for (const auto& [text, name] : all) {
    Case run;
    run.observed.*text = "is wrong";
    EXPECT_EQ(run.judged().invalid_reasons(), name + ": is wrong");
  }
  Case replicas;
  replicas.result.hashes.disagreement = "is wrong";
  EXPECT_EQ(replicas.judged().invalid_reasons(), "replicas: is wrong");
  Case disk;
  disk.result.disk = DiskResult{true, DiskBytes{}};
  disk.observed.disk_mismatch = "is wrong";
  EXPECT_EQ(disk.judged().invalid_reasons(), "disk: is wrong");
}

}  // namespace
}  // namespace shardmark::test::verdict_test
