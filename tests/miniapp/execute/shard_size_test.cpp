// SPDX-License-Identifier: Apache-2.0
// Rules: sharding in two levels, under `paper` (run.shard_size) and with DeepSpeed's secondary
// copies (zero_hpz_partition_size), changes the communication and not the training. Exact integer
// data gives the states of stage 0 bit for bit, ordered sums over the whole world give the same
// bits as without, and other sums the same within rounding. Predictions equal measurements, group
// by group.
#include <gtest/gtest.h>

#include <tests/support/training.hpp>

namespace shardmark::test::shard_size_test {
namespace {

std::vector<int> divisors() {
  std::vector<int> all;
  for (int d = 1; d <= world(); ++d)
    if (world() % d == 0) all.push_back(d);
  return all;
}

bool some_but_not_all(const std::vector<bool>& marks) {
  const auto count = std::count(marks.begin(), marks.end(), true);
  return count > 0 && count < std::ssize(marks);
}

Deck paper_deck(int stage, int shard_size, std::int64_t accumulation = 1) {
  Deck deck = small_deck(stage, 2 * world() * accumulation, accumulation);
  deck.run.schedule = Schedule::paper;
  deck.run.shard_size = shard_size;
  return deck;
}

void make_exact(Deck& deck) {
  deck.run.compute = Compute::none;
  deck.model = {};
  deck.model.family = Family::list;
  deck.model.modules = {{"in", {37}}, {"a", {101, 7}}, {"b", {1}}, {"c", {257, 3}}, {"out", {64}}};
}

TEST(ShardSize, ExactDataGivesStageZerosStates) {
  for (auto [dtype, accumulation] : {std::pair{Dtype::fp32, 2}, {Dtype::bf16, 1}}) {
    Deck zero = paper_deck(0, 0, accumulation);
    make_exact(zero);
    set_precision(zero, dtype, dtype);
    const Trained want = train_in_groups(zero);
    for (int stage : {1, 2, 3})
      for (int size : divisors()) {
        SCOPED_TRACE(::testing::Message()
                     << to_string(dtype) << " stage " << stage << " size " << size);
        Deck deck = paper_deck(stage, size, accumulation);
        make_exact(deck);
        set_precision(deck, dtype, dtype);
        deck.comm.backend = (stage + size) % 2 == 0 ? Backend::mpi : Backend::automatic;
        deck.run.memory_mode = size == 2 ? MemoryMode::pooled : MemoryMode::strict;
        EXPECT_EQ(train_in_groups(deck).hashes, want.hashes);
      }
  }
}

void expect_the_same_training(const Deck& without) {
  const Trained want = train_in_groups(without);
  for (int size : divisors()) {
    SCOPED_TRACE(::testing::Message() << "stage " << without.zero.stage << " size " << size << " "
                                      << to_string(without.run.reductions));
    Deck deck = without;
    deck.run.shard_size = size;
    const Trained have = train_in_groups(deck);
    // With blocks of one rank or of all ranks, ordered sums have the same order.
    const bool one_order = size == 1 && without.run.reductions == Reductions::ordered;
    if (size == world() || one_order) {
      EXPECT_EQ(have, want);
    }
    for (std::size_t s = 0; s < want.losses.size(); ++s) {
      EXPECT_NEAR(have.losses[s], want.losses[s], 1e-6 * want.losses[s]);
      EXPECT_NEAR(have.norms[s], want.norms[s], 1e-5 * want.norms[s]);
    }
  }
}

TEST(ShardSize, TrainsTheSameWithinRoundingAndOfTheWorldBitForBit) {
  for (int stage : {1, 2, 3}) {
    Deck deck = paper_deck(stage, 0);
    deck.run.reductions = Reductions::ordered;
    deck.zero.gradient_clipping = 0.1;  // so small that clipping is active
    expect_the_same_training(deck);
  }
  expect_the_same_training(paper_deck(2, 0, 2));
}

// An infinity on one rank reaches all ranks, through its block and between blocks.
TEST(ShardSize, AStepThatOverflowsIsSkippedByAll) {
  for (int stage : {1, 3})
    for (int size : divisors()) {
      Deck deck = paper_deck(stage, size);
      set_precision(deck, Dtype::fp16, Dtype::fp16);
      deck.zero.precision.loss_scale = {true, 0x1p21, 5, 1, false, 1};
      const Trained o = train_in_groups(deck, 8);
      EXPECT_TRUE(some_but_not_all(o.skipped)) << stage << " " << size;
    }
}

// The deeper the model, the more collectives of groups that wait for each other are in flight.
TEST(ShardSize, GroupsDoNotKeepEachOtherWaiting) {
  for (const Backend backend : {Backend::mpi, Backend::automatic})
    for (int size : divisors()) {
      Deck deck = paper_deck(3, size, 2);
      deck.comm.backend = backend;
      deck.model.layers = 8;
      train_in_groups(deck, 2);
    }
}

// DeepSpeed's secondary copies contain the same values, so no bit changes for any block size.
TEST(SecondaryCopies, ChangeNoBit) {
  for (auto [dtype, accumulation] : {std::pair{Dtype::fp32, 2}, {Dtype::bf16, 1}}) {
    Deck without = small_deck(3, 2 * world() * accumulation, accumulation);
    without.run.reductions = Reductions::ordered;
    set_precision(without, dtype, dtype);
    const Trained want = train_in_groups(without);
    for (std::int64_t size : {2, 16}) {
      if (world() % std::min<std::int64_t>(size, world()) != 0) continue;
      SCOPED_TRACE(::testing::Message() << to_string(dtype) << " block " << size);
      Deck deck = without;
      deck.zero.knobs.hpz_partition_size = size;
      deck.zero.knobs.param_persistence_threshold = size == 2 ? 0 : 50;
      EXPECT_EQ(train_in_groups(deck), want);
    }
  }
}

// After a skipped step the copies stay and still equal the parameters.
TEST(SecondaryCopies, OutliveASkippedStep) {
  Deck without = small_deck(3, 2 * world());
  set_precision(without, Dtype::fp16, Dtype::fp16);
  without.zero.precision.loss_scale = {true, 0x1p21, 5, 1, false, 1};
  without.run.reductions = Reductions::ordered;
  Deck deck = without;
  deck.zero.knobs.hpz_partition_size = world();
  if (world() == 1) deck.zero.knobs.hpz_partition_size = 2;  // a block is no more than the world
  const Trained want = train_in_groups(without, 8), have = train_in_groups(deck, 8);
  EXPECT_TRUE(some_but_not_all(want.skipped));
  EXPECT_EQ(have.losses, want.losses);
  EXPECT_EQ(have.hashes, want.hashes);
}

}  // namespace
}  // namespace shardmark::test::shard_size_test
