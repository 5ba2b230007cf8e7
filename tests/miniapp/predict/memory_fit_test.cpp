// SPDX-License-Identifier: Apache-2.0
// Rules: a deck that does not fit in the machine's memory has no time unless one asks for it, the
// deck's own budgets come before the machine's, and what is missing is what its plan needs beyond
// them.
#include <algorithm>
#include <cmath>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <miniapp/predict/prediction.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::memory_fit_test {
namespace {

Machine machine(double device_bytes) {
  Machine m;
  m.device.memory_bytes = device_bytes;
  m.device.memory_bytes_per_s = 1e9;
  NetworkLevel level;
  level.link.bytes_per_s = 1e9;
  m.network.push_back(level);
  return m;
}

Deck deck_of(int stage) {
  Deck deck = deepspeed_deck(stage);
  deck.zero.micro_batch_size = 1;
  deck.run.compute = Compute::none;
  return deck;
}

TEST(MemoryFit, DecidesAtTheByte) {
  for (const int stage : {0, 1, 2, 3}) {
    const Deck deck = deck_of(stage);
    const Program own = program(deck, 2, 0);
    double needed = 0;  // by the rank that needs most, whichever rank asks
    for (const int rank : {0, 1})
      needed = std::max(needed,
                        static_cast<double>(allocated_bytes(program(deck, 2, rank))[Tier::device]));
    EXPECT_TRUE(
        memory_fit(deck, own, machine(std::ceil(needed / usable_device_part) + 1), 2).fits())
        << stage;
    const MemoryFit less = memory_fit(deck, own, machine((needed - 4096) / usable_device_part), 2);
    EXPECT_FALSE(less.fits()) << stage;
    EXPECT_GT(less.tiers[Tier::device].missing, 0);
    EXPECT_NE(less.shortfall().find("device memory missing at"), std::string::npos)
        << less.shortfall();
  }
}

TEST(MemoryFit, GivesNoTimeToWhatDoesNotFit) {
  const Deck deck = deck_of(3);
  const Machine small = machine(1000);
  const PredictedPoint none = predict_point(deck, small, 2, 2);
  EXPECT_FALSE(none.timed);
  EXPECT_EQ(none.step_s, 0);
  EXPECT_EQ(none.tokens_per_s, 0);
  const nlohmann::ordered_json json = point_json(none);
  EXPECT_FALSE(json.at("fits"));
  for (const char* key : {"step_s", "step_s_low", "step_s_high", "tokens_per_s", "exposed_s"})
    EXPECT_TRUE(json.at(key).is_null()) << key;
  EXPECT_GT(json.at("memory").at("device").at("missing"), 0);
  const PredictedPoint asked = predict_point(deck, small, 2, 2, UnfitTime::predicted);
  EXPECT_TRUE(asked.timed);
  EXPECT_FALSE(asked.memory.fits());
  EXPECT_EQ(asked.step_s, predict_point(deck, machine(1e15), 2, 2).step_s);
}

TEST(MemoryFit, TakesTheBudgetsOfTheDeckFirst) {
  Deck deck = deck_of(2);
  deck.memory.budget_gib[Tier::device] = 1000;
  EXPECT_TRUE(predict_point(deck, machine(1000), 2, 2).timed);
  deck.memory.budget_gib[Tier::device] = 1e-6;
  EXPECT_FALSE(predict_point(deck, machine(1e15), 2, 2).timed);
}

TEST(MemoryFit, SaysWhatItDoesNotKnow) {
  const Deck deck = deck_of(1);
  const PredictedPoint point = predict_point(deck, machine(0), 2, 2);
  EXPECT_TRUE(point.timed);
  EXPECT_EQ(point.memory.unknown(), "device memory");
}

// What is known of a program and what is known of its bytes alone are judged alike.
TEST(MemoryFit, JudgesBytesAsItJudgesPrograms) {
  for (const int stage : {0, 3}) {
    Deck deck = deck_of(stage);
    deck.zero.offload_optimizer.enabled = stage > 0;
    const Program own = program(deck, 2, 0);
    const auto bytes = allocated_bytes(own);
    const auto most = static_cast<double>(bytes[Tier::device]);
    for (const bool on_host : {false, true})
      for (const double times : {0.5, 1.0, 2.0, 100.0}) {
        Machine m = machine(std::ceil(times * most / usable_device_part));
        m.device.is_host = on_host;
        const MemoryFit of_program = memory_fit(deck, own, m, 2);
        const MemoryFit of_bytes = memory_fit(deck, bytes, m, 2);
        EXPECT_EQ(of_program.fits(), of_bytes.fits()) << stage << times << on_host;
        EXPECT_EQ(of_program.most_missing() > 0, of_bytes.most_missing() > 0);
        EXPECT_EQ(of_bytes.lack().empty(), of_bytes.fits());
      }
  }
}

}  // namespace
}  // namespace shardmark::test::memory_fit_test
