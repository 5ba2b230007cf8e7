// SPDX-License-Identifier: Apache-2.0
// Rule: plans of `paper` are legal at every stage, world and accumulation, and they communicate and
// hold what the ZeRO paper says.
#include <algorithm>

#include <gtest/gtest.h>

#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/memory_refusal.hpp>
#include <core/plan/interpret/owned_elements.hpp>
#include <core/plan/interpret/print.hpp>
#include <core/plan/interpret/volume.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::paper_test {
namespace {

TEST(Paper, IsLegalEverywhere) {
  int programs = 0;
  for (int stage : {0, 1, 2, 3})
    for (int world : {1, 2, 3, 5, 17})
      for (std::int64_t accumulation : {1, 2, 3, 5})
        for (bool tied : {false, true})
          for (Compute compute : {Compute::train, Compute::none})
            for (Reductions reductions : {Reductions::native, Reductions::ordered}) {
              Deck deck = gpt2_deck(stage, 3, tied);
              deck.run.compute = compute;
              deck.run.reductions = reductions;
              auto program_of = [&](int rank) { return program(deck, world, rank, accumulation); };
              for (int rank : {0, world - 1})
                ASSERT_NO_THROW(require_legal(check(program_of(rank))));
              ASSERT_NO_THROW(require_legal(check_ranks(ranks_to_check(world, 0), program_of)));
              ++programs;
            }
  EXPECT_EQ(programs, 4 * 5 * 4 * 2 * 2 * 2);
}

Deck two_level_deck(int stage, std::int64_t shard_size) {
  Deck deck = gpt2_deck(stage, 3);
  deck.run.shard_size = shard_size;
  return deck;
}

TEST(ShardSize, IsLegalEverywhere) {
  for (int stage : {1, 2, 3})
    for (auto [world, size] : {std::pair{1, 1}, {4, 1}, {4, 2}, {4, 4}, {6, 3}, {34, 2}})
      for (std::int64_t accumulation : {1, 3})
        for (Reductions reductions : {Reductions::native, Reductions::ordered})
          for (Dtype accum : {Dtype::bf16, Dtype::fp32}) {
            Deck deck = two_level_deck(stage, size);
            deck.run.reductions = reductions;
            deck.zero.precision.model = Dtype::bf16;
            deck.zero.precision.grad_accum = accum;
            deck.zero.precision.check_overflow = stage == 2;
            auto program_of = [&](int rank) { return program(deck, world, rank, accumulation); };
            for (int rank : {0, world - 1}) ASSERT_NO_THROW(require_legal(check(program_of(rank))));
            ASSERT_NO_THROW(require_legal(check_ranks(ranks_to_check(world, 0), program_of)));
          }
}

// Where ranks share gradients, each sees a part: whether a step is skipped, and the norm that clips
// it, are those of all ranks, one reduction each.
TEST(Paper, RanksAgreeOnOverflowAndNorm) {
  for (int stage : {0, 1, 2, 3})
    for (const Dtype dtype : {Dtype::fp32, Dtype::fp16}) {
      Deck deck = gpt2_deck(stage);
      deck.zero.precision.model = deck.zero.precision.grad_accum = deck.zero.precision.comm = dtype;
      deck.zero.precision.check_overflow = dtype == Dtype::fp16;
      const Program p = program(deck, 3, 1);
      int flags = 0, norms = 0;
      for (const Event& e : p.find("boundary")->events) {
        flags += e.op == Op::all_reduce && e.reduction == Reduction::max ? 1 : 0;
        norms += e.op == Op::all_reduce && e.reduction == Reduction::sum ? 1 : 0;
      }
      EXPECT_EQ(flags, stage > 0 && dtype == Dtype::fp16 ? 1 : 0) << stage;
      EXPECT_EQ(norms, stage > 0 ? 1 : 0) << stage;
    }
}

TEST(ShardSize, OfTheWorldIsThePlanWithout) {
  for (int stage : {0, 1, 2, 3})
    for (int rank : {0, 3})
      EXPECT_EQ(print_text(program(two_level_deck(stage, 4), 4, rank, 2)),
                print_text(program(two_level_deck(stage, 0), 4, rank, 2)));
}

std::vector<std::int64_t> reductions_of(const Program& p, std::string_view segment) {
  std::vector<std::int64_t> elems;
  for (const Event& e : p.find(segment)->events) {
    if (!is_collective(e.op)) continue;
    EXPECT_EQ(e.op, Op::all_reduce);
    EXPECT_EQ(e.group, 0);
    elems.push_back(e.elems);
  }
  return elems;
}

// A rank that holds everything itself communicates only gradients.
TEST(ShardSize, OfOneSendsWhatStageZeroSends) {
  const auto zero = reductions_of(program(two_level_deck(0, 0), 4, 2), "micro_only");
  EXPECT_EQ(zero.size(), 5U);
  for (int stage : {1, 2, 3}) {
    const Program p = program(two_level_deck(stage, 1), 4, 2);
    EXPECT_EQ(reductions_of(p, "micro_only"), zero) << stage;
    EXPECT_TRUE(reductions_of(p, "boundary").empty() && reductions_of(p, "update").empty());
    EXPECT_DOUBLE_EQ(volume_per_parameter(p, steady_volume(p)), 2);
  }
}

// Within the block the volume is that without blocks; between blocks it is 2 per share, and a share
// is a part of 1/size.
TEST(ShardSize, VolumeAndStatesByGroup) {
  for (int stage : {1, 2, 3})
    for (int size : {2, 4}) {
      const Program p = program(two_level_deck(stage, size), 8, 5, 3);
      const auto units =
          static_cast<double>(p.partition.padded) / static_cast<double>(p.model.elems);
      Volume shard = steady_volume(p, 1);
      EXPECT_EQ(shard.at(Op::all_reduce).calls, 1) << "the norm";
      shard.erase(Op::all_reduce);
      const double times = stage == 1 ? 1 : 3;
      EXPECT_DOUBLE_EQ(volume_per_parameter(p, shard),
                       units * (stage == 3 ? 3 * times : times + 1));
      EXPECT_DOUBLE_EQ(volume_per_parameter(p, steady_volume(p, 2)), units * 2 * times / size);
      EXPECT_TRUE(steady_volume(p, 0).empty());
      EXPECT_EQ(p.partition.per_rank * size, p.partition.padded);
      EXPECT_EQ(p.groups[1].ranks.size(), static_cast<std::size_t>(size));
      EXPECT_EQ(p.groups[2].ranks.size(), 8U / static_cast<std::size_t>(size));
    }
}

TEST(ShardSize, ThatDoesNotDivideTheRanksIsRefused) {
  for (int size : {3, 8}) {
    try {
      program(two_level_deck(2, size), 4, 0);
      FAIL() << size;
    } catch (const DeckError& error) {
      EXPECT_NE(std::string(error.what())
                    .find("run.shard_size = " + std::to_string(size) +
                          ": must divide the number of ranks, 4"),
                std::string::npos)
          << error.what();
    }
  }
}

// What all ranks together write of the states is the whole model, exactly once.
TEST(ShardSize, CheckpointsHoldEachElementOnce) {
  for (int stage : {0, 1, 3})
    for (int size : {1, 2, 6}) {
      std::vector<int> seen(
          static_cast<std::size_t>(build_model_shape(two_level_deck(stage, size).model).elems));
      for (int rank = 0; rank < 6; ++rank)
        for (const ElementRange& r : owned_elements(program(two_level_deck(stage, size), 6, rank)))
          for (std::int64_t e = r.first; e < r.first + r.elems; ++e)
            ++seen[static_cast<std::size_t>(e)];
      EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), std::ssize(seen)) << stage << " " << size;
    }
}

// Gradients count 2 (all_reduce) or 1 (reduce_scatter) per reduction; parameters count 1 per
// gather.
TEST(Paper, VolumeIsThePapers) {
  for (std::int64_t g : {1, 4}) {
    const auto per_stage = [&](int stage) {
      const Program p = program(gpt2_deck(stage), 4, 1, g);
      Volume v = steady_volume(p);
      // The paper does not count the norm, so its one all_reduce is removed.
      if (stage > 0) v.erase(Op::all_reduce);
      return volume_per_parameter(p, v) * static_cast<double>(p.model.elems) /
             static_cast<double>(p.partition.padded);
    };
    const auto micro_batches = static_cast<double>(g);
    EXPECT_DOUBLE_EQ(per_stage(0), 2.0);
    EXPECT_DOUBLE_EQ(per_stage(1), 2.0);
    EXPECT_DOUBLE_EQ(per_stage(2), micro_batches + 1);
    EXPECT_DOUBLE_EQ(per_stage(3), 3 * micro_batches);
  }
}

std::int64_t at_exit(const Program& p, std::string_view segment, Category c) {
  return live_at(p, p.find(segment)->exit)[0][c];
}

// Between steps: parameters and two moments in fp32, of the whole model or of a rank's shards.
TEST(Paper, StatesShrinkWithTheStage) {
  constexpr int world = 4;
  for (int stage : {0, 1, 2, 3}) {
    const Program p = program(gpt2_deck(stage), world, 2);
    const auto full = 4.0 * static_cast<double>(p.partition.padded);
    const auto shard = 4.0 * static_cast<double>(p.partition.per_rank);
    const auto expect_bytes = [&](Category c, double bytes) {
      EXPECT_EQ(static_cast<double>(at_exit(p, "update", c)), bytes)
          << "stage " << stage << ", " << to_string(c);
    };
    expect_bytes(Category::param, stage == 3 ? shard : full);
    expect_bytes(Category::momentum, shard);
    expect_bytes(Category::variance, shard);
    expect_bytes(Category::grad, 0);
    EXPECT_EQ(static_cast<double>(at_exit(p, "micro_only", Category::grad)),
              stage < 2 ? full : shard);
  }
}

TEST(Paper, PeakFallsWithTheStageOnceTheModelIsDeep) {
  std::int64_t last = INT64_MAX;
  for (int stage : {0, 1, 2, 3}) {
    Deck deck = gpt2_deck(stage, 24);
    deck.model.hidden = 96;
    const std::int64_t peak = footprint(program(deck, 8, 0))[Tier::device].peak_bytes;
    EXPECT_LT(peak, last) << "stage " << stage;
    last = peak;
  }
}

TEST(Paper, OneUnitIsPrefetchedAndNeverMore) {
  const Program p = program(gpt2_deck(3, 6), 2, 0);
  const Segment& s = *p.find("micro_only");
  int alive = 0, most = 0;
  for (const Event& e : s.events) {
    if (e.category != Category::gathered || is_collective(e.op) || e.op == Op::compute) continue;
    alive += e.op == Op::acquire ? 1 : -1;
    most = std::max(most, alive);
  }
  EXPECT_EQ(most, 2);
}

// Every gather that has an earlier compute event must run during a compute event.
TEST(Paper, GathersAreIssuedOneComputeAhead) {
  const Program p = program(gpt2_deck(3, 6), 2, 0);
  const Segment& s = *p.find("micro_only");
  int exposed = 0;
  for (std::size_t i = 0; i < s.events.size(); ++i) {
    if (s.events[i].op != Op::all_gather) continue;
    const auto next = std::find_if(s.events.begin() + i, s.events.end(),
                                   [](const Event& e) { return e.op == Op::compute; });
    exposed += next->unit == s.events[i].unit ? 1 : 0;
  }
  EXPECT_EQ(exposed, 2);  // the first unit of forward and the first unit of backward
}

TEST(Paper, FootprintOfARunIsTheMaximumOverItsSegments) {
  for (int stage : {0, 1, 2, 3}) {
    const Program p = program(gpt2_deck(stage), 3, 1, 3);
    const Footprint f = footprint(p);
    const TierFootprint& device = f[Tier::device];
    std::int64_t sum = 0;
    for (std::int64_t bytes : device.at_peak) sum += bytes;
    EXPECT_EQ(sum, device.peak_bytes);
    for (const Category c : all_values<Category>)
      EXPECT_GE(device.category_peaks[c], device.at_peak[c]);
    EXPECT_EQ(f[Tier::host].peak_bytes, 0);
  }
}

TEST(Paper, ARunThatDoesNotFitIsRefusedWithWhereAndWhy) {
  Program p = program(gpt2_deck(1), 2, 0);
  const std::int64_t arena = allocated_bytes(p)[0];
  EXPECT_FALSE(over_budget(p, {arena, std::nullopt}).has_value());
  EXPECT_NE(over_budget(p, {arena - 1, std::nullopt})->find("arena"), std::string::npos);
  p.memory_mode = MemoryMode::strict;
  const std::int64_t peak = footprint(p)[Tier::device].peak_bytes;
  EXPECT_FALSE(over_budget(p, {peak, std::nullopt}).has_value());
  const auto refusal = over_budget(p, {peak - 1, std::nullopt});
  ASSERT_TRUE(refusal.has_value());
  for (const char* part : {"device", "acquire", "missing", "more ranks", "category"})
    EXPECT_NE(refusal->find(part), std::string::npos) << part << " in: " << *refusal;
  EXPECT_NE(over_budget(p, {1000, std::nullopt})->find("model states alone do not fit"),
            std::string::npos);
}

}  // namespace
}  // namespace shardmark::test::paper_test
