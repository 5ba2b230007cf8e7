// SPDX-License-Identifier: Apache-2.0
// Rule: the work of planning grows with the number of events and, at most, its logarithm. Work is
// counted, not timed.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <core/plan/accesses.hpp>
#include <core/plan/interpret/arena.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::linear_planning_test {
namespace {

Program deep_program(Schedule schedule, int stage, int layers) {
  Deck deck = gpt2_deck(stage, layers);
  deck.run.schedule = schedule;
  deck.zero.knobs.reduce_bucket_size = 5000;
  deck.zero.knobs.prefetch_bucket_size = 4000;
  deck.zero.knobs.param_persistence_threshold = 30;
  deck.zero.knobs.max_reuse_distance = 6000;
  return program(deck, 3, 1, 3);
}

TEST(LinearPlanning, FourTimesTheLayersTakeAboutFourTimesTheWorkOfAnArena) {
  for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
    for (int stage : {0, 1, 2, 3}) {
      const std::int64_t work = arena_layout(deep_program(schedule, stage, 50)).work;
      const std::int64_t more = arena_layout(deep_program(schedule, stage, 200)).work;
      EXPECT_LT(more, 6 * work) << to_string(schedule) << " stage " << stage << ": " << work;
    }
}

// Events that touch one slot, each of them newer than the one before.
struct Touches {
  Accesses accesses;
  std::int64_t looks = 0;
  std::int32_t event = 0;

  void touch(int queue, bool reads, bool writes, std::int64_t offset, std::int64_t elems) {
    const Operand o{0, writes, reads, offset, elems};
    Accesses::Newest newest{};
    looks += accesses.newest_conflicts(o, queue, newest);
    accesses.add(event++, queue, o);
  }
};

// Compute kernels fill a bucket piece by piece, a collective takes what is there, and the next
// filling has its pieces at other places.
std::int64_t looks_of_fillings(int fillings) {
  constexpr int pieces = 20;
  Touches all;
  for (int f = 0; f < fillings; ++f) {
    const std::int64_t piece = 1000 + f % 10;
    for (int p = 0; p < pieces; ++p) all.touch(0, true, true, p * piece, piece);
    all.touch(queue_count - 1, true, true, 0, pieces * piece);
  }
  return all.looks;
}

TEST(LinearPlanning, ABucketsEarlierFillingsAreForgotten) {
  EXPECT_LT(looks_of_fillings(400), 5 * looks_of_fillings(100));
}

// Kernels interleave tensors into a bucket, each with a long range that overlaps all others, a
// collective writes the rank's own part, and copies take that part piece by piece.
std::int64_t looks_of_interleaved(int tensors) {
  constexpr std::int64_t piece = 100;
  const std::int64_t part = tensors * piece;
  Touches all;
  for (int t = 0; t < tensors; ++t) all.touch(0, false, true, t * piece, 10 * part);
  all.touch(queue_count - 1, false, true, 0, part);
  for (int t = 0; t < tensors; ++t) all.touch(1, true, false, t * piece, piece);
  return all.looks;
}

TEST(LinearPlanning, ACollectivesResultHidesWhatWasWrittenBefore) {
  EXPECT_LT(looks_of_interleaved(400), 5 * looks_of_interleaved(100));
}

// What other ranks' programs are built for, at a small part of the work.
TEST(LinearPlanning, TheCollectivesAloneAreThoseOfTheWholeProgram) {
  for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
    for (int stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(std::string(to_string(schedule)) + " stage " + std::to_string(stage));
      Deck deck = gpt2_deck(stage);
      deck.run.schedule = schedule;
      deck.zero.knobs.reduce_bucket_size = 5000;
      const Program whole = program(deck, 3, 1, 3);
      const Program part = build_program(deck, batch(3, 3), 3, 1, Profile{}, Extent::collectives);
      ASSERT_EQ(part.segments.size(), whole.segments.size());
      for (std::size_t s = 0; s < whole.segments.size(); ++s) {
        EXPECT_EQ(part.segments[s].exit.alive, whole.segments[s].exit.alive);
        std::vector<std::int64_t> sent, kept;
        for (const Event& e : whole.segments[s].events)
          if (is_collective(e.op)) sent.push_back(e.elems);
        for (const Event& e : part.segments[s].events) kept.push_back(e.elems);
        EXPECT_EQ(kept, sent);
      }
    }
}

}  // namespace
}  // namespace shardmark::test::linear_planning_test
