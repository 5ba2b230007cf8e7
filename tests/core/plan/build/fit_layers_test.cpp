// SPDX-License-Identifier: Apache-2.0
// Rules: model.fit gives a number of layers that fits on every rank, while one more layer does not
// fit on some rank; the ranks that are examined are those that need the most memory.
#include <gtest/gtest.h>

#include <core/plan/build/fit_layers.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::fit_layers_test {
namespace {

Deck deck_of(Schedule schedule, int stage) {
  Deck d = gpt2_deck(stage);
  d.run.schedule = schedule;
  d.run.memory_mode = MemoryMode::strict;
  d.zero.knobs.reduce_bucket_size = 4000;
  return d;
}

std::int64_t device_bytes(const Deck& deck, int world, int rank, std::int64_t accumulation = 1) {
  return allocated_bytes(program(deck, world, rank, accumulation))[Tier::device];
}

std::int64_t most_bytes(const Deck& deck, int world, std::int64_t accumulation = 1) {
  std::int64_t most = 0;
  for (int r = 0; r < world; ++r) most = std::max(most, device_bytes(deck, world, r, accumulation));
  return most;
}

void expect_heaviest(const Deck& deck, int world, std::int64_t accumulation) {
  std::int64_t most = 0;
  const std::vector<int> ranks = heaviest_ranks(deck, world);
  ASSERT_FALSE(ranks.empty());
  for (int r : ranks) most = std::max(most, device_bytes(deck, world, r, accumulation));
  EXPECT_EQ(most, most_bytes(deck, world, accumulation))
      << to_string(deck.run.schedule) << ", stage " << deck.zero.stage << ", " << world
      << " ranks, " << accumulation << " micro-batches";
}

TEST(HeaviestRanks, HaveOneThatNeedsMost) {
  for (const Schedule schedule : {Schedule::deepspeed, Schedule::paper})
    for (int stage = 0; stage < 4; ++stage)
      for (int world : {1, 2, 3, 5, 8, 13, 40})
        for (std::int64_t accumulation : {1, 2})
          expect_heaviest(deck_of(schedule, stage), world, accumulation);
}

TEST(HeaviestRanks, HaveOneThatNeedsMostWhateverTheKnobs) {
  for (int stage : {1, 2})
    for (int knob = 0; knob < 7; ++knob)
      for (std::int64_t bucket : {300, 4000, 1'000'000})
        for (int world : {2, 5, 13}) {
          Deck d = deck_of(Schedule::deepspeed, stage);
          ZeroKnobs& k = d.zero.knobs;
          k.reduce_bucket_size = bucket;
          k.contiguous_gradients = knob != 1;
          k.overlap_comm = knob == 2 || knob == 6;
          k.round_robin_gradients = knob == 3 || knob == 6;
          k.reduce_scatter = knob != 4;
          if (knob == 5) d.zero.precision.model = d.zero.precision.comm = Dtype::bf16;
          SCOPED_TRACE("knob " + std::to_string(knob) + ", bucket " + std::to_string(bucket));
          expect_heaviest(d, world, 1);
          expect_heaviest(d, world, 2);
        }
}

TEST(Fit, IsTheLargestNumberOfLayersThatFitsOnEveryRank) {
  constexpr int world = 5;
  for (const Schedule schedule : {Schedule::deepspeed, Schedule::paper})
    for (int stage = 0; stage < 4; ++stage)
      for (std::int64_t budget : {300'000, 700'000, 2'000'000}) {
        SCOPED_TRACE(std::string(to_string(schedule)) + ", stage " + std::to_string(stage) + ", " +
                     std::to_string(budget));
        Deck d = deck_of(schedule, stage);
        d.model.fit = 0.75;
        const Fit fit = fit_layers(d, batch(world), world, Profile{}, {budget, false, "test"});
        std::int64_t layers = 0;
        for (d.model.layers = 1; most_bytes(d, world) <= budget * 3 / 4; ++d.model.layers)
          layers = d.model.layers;
        EXPECT_EQ(fit.layers, layers);
        EXPECT_EQ(fit.limit_bytes, budget * 3 / 4);
        EXPECT_EQ(fit.next_bytes, most_bytes(d, world)) << "of one layer more";
        EXPECT_GT(fit.next_bytes, fit.limit_bytes);
        d.model.layers = std::max<std::int64_t>(1, layers);
        EXPECT_EQ(fit.bytes, most_bytes(d, world));
      }
}

TEST(Fit, SaysWhatOneLayerNeedsWhereNoneFits) {
  Deck d = deck_of(Schedule::deepspeed, 0);
  d.model.fit = 1;
  const auto fit = apply_fit(d, batch(2), 2, Profile{}, {1000, false, "test"});
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->layers, 0);
  EXPECT_EQ(d.model.layers, 1) << "there is a plan to look at";
  EXPECT_EQ(fit->bytes, most_bytes(d, 2));
  EXPECT_NE(describe(*fit).find("not even one layer"), std::string::npos);
}

TEST(Fit, LeavesDecksAloneThatGiveTheirLayers) {
  Deck d = deck_of(Schedule::deepspeed, 2);
  EXPECT_FALSE(apply_fit(d, batch(2), 2, Profile{}, {1'000'000, false, "test"}));
  EXPECT_EQ(d.model.layers, 2);
}

TEST(Fit, PlansAThousandRanks) {
  for (int stage : {2, 3}) {
    Deck d = deck_of(Schedule::deepspeed, stage);
    d.model.hidden = 4096;
    d.model.heads = 32;
    d.model.sequence = 1024;
    d.model.vocab = 50304;
    d.model.fit = 0.5;
    d.run.memory_mode = MemoryMode::pooled;
    d.zero.knobs = {};
    const Fit fit =
        fit_layers(d, batch(1024), 1024, Profile{}, {std::int64_t{40} << 30, false, "test"});
    EXPECT_GT(fit.layers, 4) << "stage " << stage;
    EXPECT_LE(fit.bytes, fit.limit_bytes);
    EXPECT_GT(fit.next_bytes, fit.limit_bytes);
  }
}

}  // namespace
}  // namespace shardmark::test::fit_layers_test
