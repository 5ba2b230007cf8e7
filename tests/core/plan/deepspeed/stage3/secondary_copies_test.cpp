// SPDX-License-Identifier: Apache-2.0
// Rules of zero_hpz_partition_size (ZeRO++'s hpZ): the secondary copies take traffic from the
// world, cost memory, and are legal wherever blocks divide the ranks.
#include <gtest/gtest.h>

#include <core/error.hpp>
#include <core/plan/build/legal_program.hpp>
#include <core/plan/interpret/check.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/print.hpp>
#include <core/plan/interpret/volume.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::secondary_copies_test {
namespace {

Deck hpz_deck(std::int64_t size) {
  Deck d = deepspeed_deck(3);
  d.zero.knobs.hpz_partition_size = size;
  return d;
}

TEST(SecondaryCopies, AreLegalEverywhere) {
  for (auto [world, size] : {std::pair{1, 2}, {2, 2}, {4, 2}, {4, 8}, {6, 3}, {18, 2}})
    for (std::int64_t accumulation : {1, 3})
      for (bool sequential : {false, true})
        for (bool by_sum : {false, true}) {
          Deck d = hpz_deck(size);
          d.zero.knobs.allgather_sequential = sequential;
          d.zero.knobs.use_all_reduce_for_fetch_params = by_sum;
          d.zero.precision.check_overflow = by_sum;
          auto program_of = [&](int rank) { return program(d, world, rank, accumulation); };
          for (int rank : {0, world - 1}) ASSERT_NO_THROW(require_legal(check(program_of(rank))));
          ASSERT_NO_THROW(require_legal(check_ranks(ranks_to_check(world, 0), program_of)));
        }
}

TEST(SecondaryCopies, OfOneOrOfNoneArePlansWithout) {
  EXPECT_EQ(print_text(program(hpz_deck(1), 4, 2)), print_text(program(deepspeed_deck(3), 4, 2)));
}

// Each parameter is gathered from the world once per step and from the block otherwise; a rank
// holds an additional 1/size of the parameters.
TEST(SecondaryCopies, TakeTrafficFromTheWorldAndCostMemory) {
  Deck d = hpz_deck(2);
  d.zero.knobs.max_reuse_distance = d.zero.knobs.prefetch_bucket_size = 0;
  d.zero.knobs.param_persistence_threshold = 0;
  const Program p = program(d, 8, 3, 2);
  d.zero.knobs.hpz_partition_size = 1;
  const Program without = program(d, 8, 3, 2);
  const auto gathered = [](const Program& of, int group) {
    return steady_volume(of, group).at(Op::all_gather).elems;
  };
  const std::int64_t once = p.partition.padded;
  EXPECT_EQ(gathered(without, 0), 4 * once);  // forward and backward of two micro-batches
  EXPECT_EQ(gathered(p, 0), once);
  EXPECT_EQ(gathered(p, 1), 3 * once);
  const auto copies = [](const Program& of) {
    return live_at(of, of.find("boundary")->exit)[0][Category::param];
  };
  EXPECT_EQ(copies(p) - copies(without), 4 * once / 2);
  EXPECT_EQ(live_at(p, p.find("update")->exit), live_at(without, without.find("update")->exit));
}

TEST(SecondaryCopies, OfABlockThatDoesNotDivideTheRanksAreRefused) {
  try {
    program(hpz_deck(3), 4, 0);
    FAIL();
  } catch (const DeckError& error) {
    EXPECT_NE(std::string(error.what()).find("zero_hpz_partition_size = 3: must divide"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace shardmark::test::secondary_copies_test
