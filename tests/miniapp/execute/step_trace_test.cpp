// SPDX-License-Identifier: Apache-2.0
// Rules: a traced step has every event once, in order, with the memory that the plan predicts; a
// step that is not traced leaves no trace.
#include <gtest/gtest.h>

#include <core/plan/interpret/footprint.hpp>
#include <miniapp/execute/step_trace.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::step_trace_test {
namespace {

int ranks() {
  int n = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  return n;
}

// Compares the predicted bytes after each event with the measured ones, in both memory modes.
void expect_memory_of_the_plan(const Program& p, const StepTrace& trace) {
  for (const TracedEvent& t : trace.events) {
    if (t.event < 0) continue;
    const auto live = live_after(p, t.segment)[static_cast<std::size_t>(t.event)];
    for (const Tier tier : all_values<Tier>) {
      std::int64_t predicted = 0;
      for (const std::int64_t bytes : live[tier]) predicted += bytes;
      ASSERT_EQ(t.held_bytes[tier], predicted) << describe_event(p, t.segment, t.event);
    }
  }
}

TEST(StepTrace, HoldsWhatThePlanSaysAfterEachEvent) {
  for (const MemoryMode mode : {MemoryMode::strict, MemoryMode::pooled})
    for (int stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(std::string(to_string(mode)) + ", stage " + std::to_string(stage));
      Deck deck = small_deck(stage, 2 * ranks(), 2);
      deck.run.memory_mode = mode;
      Training t(deck, MPI_COMM_WORLD);
      t.init();
      t.step();
      StepTrace trace;
      t.executor().trace(&trace);
      t.step();
      t.executor().trace(nullptr);
      const std::size_t events = trace.events.size();
      EXPECT_GT(events, 100U);
      expect_memory_of_the_plan(t.program(), trace);
      std::int64_t before = 0;
      for (const TracedEvent& e : trace.events) {
        EXPECT_GE(e.begin_ns, before);
        EXPECT_GE(e.end_ns, e.begin_ns);
        EXPECT_GE(e.exposed_ns, 0);
        EXPECT_LE(e.exposed_ns, e.end_ns - e.begin_ns);
        before = e.end_ns;
      }
      t.step();
      EXPECT_EQ(trace.events.size(), events) << "it was over";
    }
}

TEST(StepTrace, SeesALeak) {
  for (const MemoryMode mode : {MemoryMode::strict, MemoryMode::pooled}) {
    const Slot s{"a", Tier::device, Category::bucket, Dtype::fp32, 1000};
    Program p;
    p.memory_mode = mode;
    p.slots = {s, s};
    Ledger ledger;
    SlotMemory memory(p, &ledger);
    memory.acquire(0);
    memory.acquire(1);
    EXPECT_EQ(memory.held_bytes()[0], 2 * alloc_bytes(s));
    memory.release(0);
    memory.leak(1);
    EXPECT_EQ(memory.held_bytes()[0], alloc_bytes(s)) << to_string(mode);
  }
}

}  // namespace
}  // namespace shardmark::test::step_trace_test
