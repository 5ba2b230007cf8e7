// SPDX-License-Identifier: Apache-2.0
// Rule: in an arena, slots that are alive at the same time do not overlap; the arena ends with its
// last slot and is not much larger than what is alive at the same time.
#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include <core/plan/interpret/arena.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::arena_test {
namespace {

// Walks through the events with a set of live slots.
void expect_apart(const Program& p, const ArenaLayout& arena) {
  for (const Segment& s : p.segments) {
    std::set<std::int32_t> alive(s.entry.alive.begin(), s.entry.alive.end());
    const auto check = [&](std::int32_t slot) {
      const Slot& a = p.slots[slot];
      if (a.tier == Tier::nvme) return;  // a file has no place
      ASSERT_EQ(arena.offset[slot] % arena.alignment[a.tier], 0);
      const std::int64_t end = arena.offset[slot] + alloc_bytes(a);
      ASSERT_LE(end, arena[a.tier]);
      for (std::int32_t other : alive) {
        const Slot& b = p.slots[other];
        if (other == slot || a.tier != b.tier) continue;
        ASSERT_TRUE(end <= arena.offset[other] ||
                    arena.offset[other] + alloc_bytes(b) <= arena.offset[slot])
            << a.name << " and " << b.name << " in " << s.name;
      }
    };
    for (std::int32_t slot : s.entry.alive) check(slot);
    for (const Event& e : s.events) {
      if (e.op == Op::acquire) alive.insert(e.slot), check(e.slot);
      if (e.op == Op::release) alive.erase(e.slot);
    }
  }
}

TEST(Arena, LiveSlotsLieApartAndLittleIsLost) {
  double worst = 1;
  for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
    for (int stage : {0, 1, 2, 3})
      for (std::int64_t accumulation : {1, 3})
        for (int rank : {0, 2}) {
          SCOPED_TRACE(std::string(to_string(schedule)) + " stage " + std::to_string(stage));
          Deck deck = gpt2_deck(stage, 5);
          deck.run.schedule = schedule;
          deck.zero.knobs.reduce_bucket_size = 5000;
          deck.zero.knobs.prefetch_bucket_size = 4000;
          deck.zero.knobs.param_persistence_threshold = 30;
          deck.zero.knobs.max_reuse_distance = 6000;
          const Program p = program(deck, 3, rank, accumulation);
          const ArenaLayout arena = arena_layout(p);
          expect_apart(p, arena);
          const std::int64_t peak = footprint(p)[Tier::device].peak_bytes;
          EXPECT_GE(arena[Tier::device], peak);
          EXPECT_EQ(arena[Tier::host], 0);
          worst =
              std::max(worst, static_cast<double>(arena[Tier::device]) / static_cast<double>(peak));
          EXPECT_EQ(arena_layout(p).offset, arena.offset);
        }
  // Padding to 256 bytes weighs most in such a small model.
  EXPECT_LT(worst, 1.25);
  printf("largest arena: %.3f of the live peak\n", worst);
}

// A transfer bypasses the page cache as one piece if its memory begins at a page.
TEST(Arena, HostSlotsBesideFilesBeginAtPages) {
  for (const bool files : {false, true}) {
    Deck deck = gpt2_deck(3, 5);
    deck.run.schedule = Schedule::deepspeed;
    deck.zero.offload_optimizer.enabled = true;
    if (files) put_in_files(deck, true, true);
    const Program p = program(deck, 3, 1, 2);
    ASSERT_EQ(p.has_files(), files);
    const ArenaLayout arena = arena_layout(p);
    expect_apart(p, arena);
    EXPECT_EQ(arena.alignment[Tier::host], files ? file_alignment : arena_alignment);
    EXPECT_EQ(arena.alignment[Tier::device], arena_alignment);
    std::int64_t end = 0;
    for (std::size_t slot = 0; slot < p.slots.size(); ++slot)
      if (p.slots[slot].tier == Tier::host && arena.offset[slot] >= 0)
        end = std::max(end, arena.offset[slot] + alloc_bytes(p.slots[slot]));
    EXPECT_GE(arena[Tier::host], end + (files ? file_alignment : 0)) << "room to begin at a page";
  }
}

TEST(Arena, SlotsThatNeverMeetShareMemory) {
  Program p;
  for (const char* name : {"always", "first", "second"})
    p.slots.push_back({.name = name, .elems = 100});
  const auto event = [](Op op, int slot) {
    Event e;
    e.op = op, e.slot = slot;
    return e;
  };
  Segment init, step;
  init.events = {event(Op::acquire, 0)};
  step.kind = SegmentKind::micro;
  step.events = {event(Op::acquire, 1), event(Op::release, 1), event(Op::acquire, 2),
                 event(Op::release, 2)};
  init.exit.alive = step.entry.alive = step.exit.alive = {0};
  p.segments = {init, step};
  const ArenaLayout arena = arena_layout(p);
  EXPECT_EQ(arena.offset, (std::vector<std::int64_t>{0, 512, 512}));
  EXPECT_EQ(arena[Tier::device], 1024);
}

}  // namespace
}  // namespace shardmark::test::arena_test
