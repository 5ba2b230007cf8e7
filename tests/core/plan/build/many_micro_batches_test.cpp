// SPDX-License-Identifier: Apache-2.0
// Rule: a plan does not grow with the number of micro-batches of a step. They repeat themselves,
// are written once, and are counted as often as they run.
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/print.hpp>
#include <core/plan/interpret/volume.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::many_micro_batches_test {
namespace {

std::vector<int> expanded(const MicroBatches& micros) {
  std::vector<int> order;
  for (std::int64_t g = 0; g < micros.size(); ++g) order.push_back(micros[g]);
  return order;
}

TEST(MicroBatches, AreStoredAsRuns) {
  MicroBatches m{4, 7, 7};
  m.resize(5, 7);
  m.push_back(8);
  EXPECT_EQ(expanded(m), (std::vector<int>{4, 7, 7, 7, 7, 8}));
  EXPECT_EQ(m.runs().size(), 3U);
  m.repeat(1, 2);
  EXPECT_EQ(expanded(m), (std::vector<int>{4, 7, 7, 7, 7, 8, 8, 8}));
  m.repeat(4, 1);  // 7 8 8 8 once more; the other 7s stay
  EXPECT_EQ(expanded(m), (std::vector<int>{4, 7, 7, 7, 7, 8, 8, 8, 7, 8, 8, 8}));
  EXPECT_EQ(m.runs().size(), 3U);
  m.repeat(4, 1'000'000'000);
  EXPECT_EQ(m.size(), 12 + 4'000'000'000);
  EXPECT_EQ(m.runs().size(), 4U);
  EXPECT_EQ(m[4'000'000'000], 7);
}

template<class Each>
void for_each_program(std::int64_t accumulation, Each each) {
  for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
    for (int stage : {0, 1, 2, 3})
      for (bool offload : {false, true}) {
        if (offload && (stage == 0 || schedule == Schedule::paper)) continue;
        SCOPED_TRACE(std::string(to_string(schedule)) + " stage " + std::to_string(stage));
        Deck deck = gpt2_deck(stage);
        deck.run.schedule = schedule;
        deck.zero.offload_optimizer.enabled = offload;
        deck.zero.knobs.max_reuse_distance = 6000;
        deck.zero.knobs.max_live_parameters = 9000;
        deck.zero.knobs.prefetch_bucket_size = 4000;
        each(deck, program(deck, 2, 1, accumulation));
      }
}

TEST(ManyMicroBatches, TakeNoMoreEventsThanAFew) {
  for_each_program(most_micro_batches, [](const Deck& deck, const Program& many) {
    const Program few = program(deck, 2, 1, 5);
    ASSERT_EQ(many.segments.size(), few.segments.size());
    for (std::size_t s = 0; s < few.segments.size(); ++s)
      EXPECT_EQ(many.segments[s].events.size(), few.segments[s].events.size());
    EXPECT_EQ(many.steps.back().micros.size(), most_micro_batches);
    EXPECT_LT(many.steps.back().micros.runs().size(), 5U);
    ASSERT_NO_THROW(require_legal(check(many)));
  });
}

TEST(ManyMicroBatches, CountInTheVolumeAsOftenAsTheyRun) {
  for_each_program(1000, [](const Deck& deck, const Program& many) {
    const Volume one = steady_volume(program(deck, 2, 1, 5));
    const Volume two = steady_volume(program(deck, 2, 1, 6));
    for (const auto& [op, traffic] : steady_volume(many)) {
      const std::int64_t each = two.at(op).calls - one.at(op).calls;
      EXPECT_EQ(traffic.calls, one.at(op).calls + 995 * each);
    }
  });
}

TEST(ManyMicroBatches, ThatRepeatOthersAreLeftOutOfTheRows) {
  for_each_program(1'000'000'000, [](const Deck&, const Program& many) {
    const auto json = print_json(many, {}, "");
    EXPECT_LT(json.at("steps").at("steady").size(), 2000U);
    EXPECT_LT(json.at("memory_at").size(), 10U);
    EXPECT_TRUE(json.at("memory_at").contains("after_bwd0"));
    const auto& run = json.at("repeated").at("steady").at(0);
    EXPECT_GT(run.at("times"), 999'999'000);
  });
  for_each_program(50, [](const Deck&, const Program& all) {
    const auto json = print_json(all, {}, "");
    EXPECT_FALSE(json.contains("repeated"));
    EXPECT_EQ(json.at("memory_at").size(), 51U);
  });
}

TEST(ManyMicroBatches, HaveABound) {
  const Deck deck = gpt2_deck(0);
  try {
    program(deck, 1, 0, most_micro_batches + 1);
    FAIL() << "no error";
  } catch (const DeckError& error) {
    EXPECT_NE(std::string(error.what()).find("gradient_accumulation_steps = 2147483648"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace shardmark::test::many_micro_batches_test
