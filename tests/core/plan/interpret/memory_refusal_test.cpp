// SPDX-License-Identifier: Apache-2.0
// Rules: what start-up leaves alive is a lower bound of what a run needs, whatever the deck, so
// that a run is refused early only where the whole plan refuses it too; the refusal says why.
#include <gtest/gtest.h>

#include <core/plan/build/fit_layers.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/memory_refusal.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::memory_refusal_test {
namespace {

constexpr auto device = Tier::device;
constexpr auto host = Tier::host;

Deck deck_of(Schedule schedule, int stage, Dtype dtype, bool offload) {
  Deck deck = gpt2_deck(stage, 3);
  deck.run.schedule = schedule;
  PrecisionSpec& precision = deck.zero.precision;
  precision.model = precision.grad_accum = precision.comm = dtype;
  deck.zero.offload_optimizer.enabled = offload;
  return deck;
}

template<class Each>
void for_each_deck(Each each) {
  for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
    for (int stage : {0, 1, 2, 3})
      for (Dtype dtype : {Dtype::fp32, Dtype::bf16})
        for (bool offload : {false, true}) {
          if (offload && (stage == 0 || schedule == Schedule::paper)) continue;
          SCOPED_TRACE(std::string(to_string(schedule)) + " stage " + std::to_string(stage) + " " +
                       std::string(to_string(dtype)) + (offload ? " offloaded" : ""));
          each(deck_of(schedule, stage, dtype, offload));
        }
}

TEST(MemoryRefusal, StartUpIsTheWholePlansFirstSegmentAndALowerBoundOfItsMemory) {
  for_each_deck([](const Deck& deck) {
    const Program whole = program(deck, 3, 1);
    const Program start_up = build_program(deck, batch(3), 3, 1, Profile{}, Extent::start_up);
    EXPECT_EQ(start_up.segments.size(), 1U);
    EXPECT_TRUE(start_up.steps.empty());
    EXPECT_EQ(start_up.segments[0].events.size(), whole.segments[0].events.size());
    EXPECT_EQ(start_up.segments[0].exit.alive, whole.segments[0].exit.alive);
    const auto live = live_at(start_up, start_up.segments[0].exit);
    for (const Tier t : {device, host})
      EXPECT_LE(state_bytes(live[t]), footprint(whole).tiers[t].peak_bytes);
  });
}

TEST(MemoryRefusal, StatesThatDoNotFitAreRefusedFromStartUpAlone) {
  for_each_deck([](const Deck& deck) {
    const Program whole = program(deck, 3, 1);
    const Program start_up = build_program(deck, batch(3), 3, 1, Profile{}, Extent::start_up);
    const auto live = live_at(start_up, start_up.segments[0].exit);
    for (const Tier t : {device, host}) {
      const std::int64_t states = state_bytes(live[t]);
      if (states == 0) continue;
      Budgets budgets;
      budgets[t] = states;
      EXPECT_FALSE(states_over_budget(start_up, budgets, {}, 2));
      budgets[t] = states - 1;
      EXPECT_TRUE(over_budget(whole, budgets, 2));
      const auto refusal = states_over_budget(start_up, budgets, {}, 2);
      ASSERT_TRUE(refusal);
      for (const std::string& part :
           {std::string(t == device ? "in device memory" : "in host memory"),
            std::to_string(states) + " bytes", std::string("1 B missing"),
            std::string("die at init"), std::string("The model states alone do not fit"),
            std::string("What would help: ")})
        EXPECT_NE(refusal->find(part), std::string::npos) << part << ": " << *refusal;
    }
  });
}

TEST(MemoryRefusal, StatesOfBothTiersMayHaveToFitInOneMemory) {
  const Deck deck = deck_of(Schedule::deepspeed, 2, Dtype::bf16, true);
  const Program start_up = build_program(deck, batch(3), 3, 1, Profile{}, Extent::start_up);
  const auto live = live_at(start_up, start_up.segments[0].exit);
  const std::int64_t both = state_bytes(live[device]) + state_bytes(live[host]);
  EXPECT_FALSE(states_over_budget(start_up, {}, both, 3));
  const auto refusal = states_over_budget(start_up, {}, both - 1, 3);
  ASSERT_TRUE(refusal);
  EXPECT_NE(refusal->find("which are the same here"), std::string::npos) << *refusal;
}

// Of a tiny model, whose gathered units are large beside its states, stage 3 may need most.
TEST(MemoryRefusal, NamesOnlyChangesThatWerePlannedAndFit) {
  int named = 0, left_out = 0;
  for_each_deck([&](const Deck& deck) {
    const Program whole = program(deck, 3, 1);
    Budgets budgets;
    budgets[device] = allocated_bytes(whole)[device] - 1;
    const auto fits = [&](const Program& p) { return !over_budget(p, budgets); };
    const auto fitting = changes_that_fit(deck, batch(3), 3, 1, Profile{}, fits);
    const auto refusal = over_budget(whole, budgets, 1, fitting);
    ASSERT_TRUE(refusal);
    // Whether there is a change is open only as long as nobody has planned any.
    EXPECT_EQ(refusal->find("a change of the deck"), std::string::npos) << *refusal;
    EXPECT_NE(over_budget(whole, budgets)->find("a change of the deck"), std::string::npos);
    for (int stage = deck.zero.stage + 1; stage <= 3; ++stage) {
      Deck higher = deck;
      higher.zero.stage = stage;
      const bool fit = fits(program(higher, 3, 1));
      (fit ? named : left_out) += 1;
      EXPECT_EQ(refusal->find("ZeRO stage " + std::to_string(stage)) != std::string::npos, fit)
          << *refusal;
    }
  });
  EXPECT_GT(named, 0);
  EXPECT_GT(left_out, 0) << "no higher stage needs more, so that nothing was tried";
}

}  // namespace
}  // namespace shardmark::test::memory_refusal_test
