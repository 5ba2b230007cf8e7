// SPDX-License-Identifier: Apache-2.0
// Rules: layers, samples or experts divided over ranks change the communication and not the
// training. Losses and norms are those of an undivided run within the rounding of sums in another
// order, predictions equal measurements group by group, and ranks that hold the same part agree in
// the end.
#include <gtest/gtest.h>

#include <core/plan/interpret/print.hpp>
#include <tests/support/divided.hpp>

namespace shardmark::test::divided_run_test {
namespace {

void expect_near_losses(const Trained& have, const Trained& want, double tolerance) {
  ASSERT_EQ(have.losses.size(), want.losses.size());
  for (std::size_t s = 0; s < want.losses.size(); ++s)
    EXPECT_NEAR(have.losses[s], want.losses[s], tolerance * want.losses[s]) << "step " << s;
}

void expect_near(const Trained& have, const Trained& want, double tolerance) {
  expect_near_losses(have, want, tolerance);
  for (std::size_t s = 0; s < want.losses.size(); ++s)
    EXPECT_NEAR(have.norms[s], want.norms[s], 20 * tolerance * want.norms[s]) << "step " << s;
}

// The losses and norms of a deck are nearly those of the deck with divided layers.
void expect_same_over_layers(const Deck& plain, int steps, double tolerance) {
  const Trained want = train_in_groups(plain, steps);
  for (const int t : degrees()) {
    SCOPED_TRACE(::testing::Message() << "stage " << plain.zero.stage << ", over " << t);
    Deck deck = plain;
    deck.zero.parallel.tensor = t;
    expect_near(train_in_groups(deck, steps), want, tolerance);
  }
}

TEST(DividedRun, TrainsTheSameForTwentySteps) {
  for (const int stage : {0, 1, 2, 3}) {
    const Trained want = train_in_groups(llama_deck(stage), 20);
    for (const int t : degrees()) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ", over " << t);
      Deck deck = llama_deck(stage);
      deck.zero.parallel.tensor = t;
      deck.run.memory_mode = stage == 2 ? MemoryMode::pooled : MemoryMode::strict;
      expect_near(train_in_groups(deck, 20), want, 1e-5);
    }
  }
}

TEST(DividedRun, TrainsTheSameWithAccumulationRecomputationAndOrderedSums) {
  for (const int stage : {0, 2, 3}) {
    Deck plain = llama_deck(stage, 2);
    plain.run.activation_checkpointing = true;
    plain.run.reductions = Reductions::ordered;
    expect_same_over_layers(plain, 4, 1e-5);
  }
}

TEST(DividedRun, TrainsTheSameInUnequalPartsWithNormsOfQueriesAndKeys) {
  for (const int stage : {0, 1, 2, 3}) {
    Deck plain = uneven_deck(stage, 2);
    plain.run.activation_checkpointing = stage == 3;
    expect_same_over_layers(plain, 8, 1e-5);
  }
}

// Stage 3 is refused there.
TEST(DividedRun, TrainsTheSameWithRanksBeyondTheHeadsOfKeys) {
  for (const int stage : {0, 1, 2}) {
    Deck plain = one_key_deck(stage, 2);
    plain.run.activation_checkpointing = stage == 2;
    plain.run.memory_mode = stage == 2 ? MemoryMode::pooled : MemoryMode::strict;
    expect_same_over_layers(plain, 8, 1e-5);
    set_precision(plain, Dtype::bf16, Dtype::bf16);
    expect_same_over_layers(plain, 4, 2e-3);
  }
}

// 8 bits of bf16: partial sums are rounded before they are added up.
TEST(DividedRun, TrainsNearlyTheSameIn16Bits) {
  for (const int stage : {0, 1, 3}) {
    Deck plain = llama_deck(stage);
    set_precision(plain, Dtype::bf16, Dtype::bf16);
    expect_same_over_layers(plain, 4, 2e-3);
  }
}

// An infinity in a part of a layer reaches every rank. At stage 0 DeepSpeed does not scale the
// loss.
TEST(DividedRun, AStepThatOverflowsIsSkippedByAll) {
  for (const int stage : {1, 3})
    for (const int t : degrees()) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ", over " << t);
      Deck deck = llama_deck(stage);
      deck.zero.parallel.tensor = t;
      set_precision(deck, Dtype::fp16, Dtype::fp16);
      deck.zero.precision.loss_scale = {true, 0x1p21, 5, 1, false, 1};
      const Trained o = train_in_groups(deck, 8);
      const auto skipped = std::count(o.skipped.begin(), o.skipped.end(), true);
      EXPECT_TRUE(skipped > 0 && skipped < std::ssize(o.skipped));
    }
}

TEST(DividedRun, DividedSamplesTrainTheSameForTwentySteps) {
  for (const int stage : {0, 1, 2, 3}) {
    const Trained want = train_in_groups(by_samples(llama_deck(stage), 1), 20);
    for (const int s : degrees()) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ", over " << s);
      Deck deck = by_samples(llama_deck(stage), s);
      deck.run.memory_mode = stage == 2 ? MemoryMode::pooled : MemoryMode::strict;
      expect_near(train_in_groups(deck, 20), want, 1e-5);
    }
  }
}

// With fewer heads of keys than ranks, several ranks have one of them.
TEST(DividedRun, DividedSamplesTrainTheSameWithSharedKeysRecomputationAndOrderedSums) {
  for (const int stage : {0, 2, 3}) {
    Deck plain = llama_deck(stage, 2);
    plain.model.kv_heads = 2;
    plain.run.activation_checkpointing = true;
    plain.run.reductions = Reductions::ordered;
    const Trained want = train_in_groups(by_samples(plain, 1), 4);
    for (const int s : degrees()) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ", over " << s);
      expect_near(train_in_groups(by_samples(plain, s), 4), want, 1e-5);
    }
  }
}

TEST(DividedRun, DividedSamplesTrainTheSameWithNormsOfQueriesAndKeysInTheEnd) {
  for (const int stage : {1, 3}) {
    const Trained want = train_in_groups(by_samples(normed_deck(stage), 1), 8);
    for (const int s : degrees()) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ", over " << s);
      expect_near(train_in_groups(by_samples(normed_deck(stage), s), 8), want, 1e-5);
    }
  }
}

TEST(DividedRun, DividedSamplesTrainNearlyTheSameIn16Bits) {
  for (const int stage : {0, 1, 3}) {
    Deck plain = llama_deck(stage);
    set_precision(plain, Dtype::bf16, Dtype::bf16);
    plain.zero.precision.comm = Dtype::fp32;
    const Trained want = train_in_groups(by_samples(plain, 1), 4);
    for (const int s : degrees()) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ", over " << s);
      expect_near(train_in_groups(by_samples(plain, s), 4), want, 2e-3);
    }
  }
}

// The deck at a stage, its experts divided over `e` ranks: at stage 2 with the other order of ranks
// and memory.
Deck by_experts(Deck deck, int stage, int e) {
  deck.zero.stage = stage;
  deck.zero.parallel.expert = e;
  deck.zero.parallel.same_experts_near = stage == 2;
  deck.run.memory_mode = stage == 2 ? MemoryMode::pooled : MemoryMode::strict;
  return deck;
}

// Trains the deck with undivided experts, and divided over each degree.
void expect_same_over_experts(const Deck& plain, double tolerance) {
  const Trained want = train_in_groups(plain, 4);
  for (const int e : degrees()) {
    SCOPED_TRACE(::testing::Message() << "over " << e);
    Deck deck = plain;
    deck.zero.parallel.expert = e;
    expect_near(train_in_groups(deck, 4), want, tolerance);
  }
}

// Undivided, these stages train the same.
TEST(DividedRun, DividedExpertsTrainTheSameForTwentySteps) {
  const Deck plain = mixture_deck(1);
  const Trained want = train_in_groups(plain, 20);
  for (const int e : degrees())
    for (const int stage : {1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage << ", over " << e);
      expect_near(train_in_groups(by_experts(plain, stage, e), 20), want, 1e-5);
    }
}

// With 7 tokens per sample some experts have one row more, so that ranks exchange parts of
// different sizes.
TEST(DividedRun, DividedExpertsTrainTheSameWithUnequalPartsRecomputationAndOrderedSums) {
  for (const int stage : {1, 2}) {
    Deck plain = mixture_deck(stage, 2, 7);
    plain.run.activation_checkpointing = true;
    plain.run.reductions = Reductions::ordered;
    plain.zero.knobs.reduce_bucket_size = 2000;
    const Trained want = train_in_groups(plain, 4);
    for (const int e : degrees())
      for (const bool rooted : {false, true}) {
        SCOPED_TRACE(::testing::Message() << "stage " << stage << ", over " << e << " " << rooted);
        Deck deck = plain;
        deck.zero.parallel.expert = e;
        deck.zero.knobs.use_multi_rank_bucket_allreduce = !rooted;
        expect_near(train_in_groups(deck, 4), want, 1e-5);
      }
  }
}

TEST(DividedRun, DividedExpertsTrainNearlyTheSameIn16Bits) {
  for (const int stage : {0, 2, 3}) {
    Deck plain = mixture_deck(stage);
    set_precision(plain, Dtype::bf16, Dtype::bf16);
    SCOPED_TRACE(::testing::Message() << "stage " << stage);
    expect_same_over_experts(plain, 2e-3);
  }
}

// Tokens have the experts that their router prefers, so that in each step ranks exchange other
// numbers of rows. The room is what all ranks have together.
TEST(DividedRun, DividedExpertsTrainTheSameWithLearnedRouting) {
  const std::vector<std::string> learned{"model.routing=learned", "model.expert_room=4"};
  for (const bool again : {false, true}) {
    Deck plain = mixture_deck(1, 2, 7, learned);
    plain.run.activation_checkpointing = again;
    const Trained want = train_in_groups(plain, 20);
    for (const int e : degrees())
      for (const int stage : {1, 2, 3}) {
        SCOPED_TRACE(::testing::Message() << "stage " << stage << ", over " << e << " " << again);
        expect_near(train_in_groups(by_experts(plain, stage, e), 20), want, 1e-5);
      }
  }
}

TEST(DividedRun, DividedExpertsTrainTheSameWithStatesOnTheHost) {
  for (const int stage : {1, 2, 3}) {
    Deck plain = mixture_deck(stage, 2, 7);
    plain.zero.offload_optimizer.enabled = true;
    plain.zero.offload_param.enabled = stage == 3;
    plain.zero.knobs.param_persistence_threshold = 0;
    SCOPED_TRACE(::testing::Message() << "stage " << stage);
    expect_same_over_experts(plain, 1e-5);
  }
}

// AutoEP calls the shared expert after the others.
TEST(DividedRun, DividedExpertsTrainTheSameBesideASharedOne) {
  for (const bool again : {false, true}) {
    Deck plain = mixture_deck(2, 2, 8, {"model.moe.shared_ffn=20"});
    plain.run.activation_checkpointing = again;
    expect_same_over_experts(plain, 1e-5);
  }
}

// Experts are gathered from the ranks with the same ones, when their rows have arrived or, together
// with other parameters, before.
TEST(DividedRun, DividedExpertsTrainTheSameIfTheyAreGathered) {
  for (const std::int64_t prefetch : {0, 9000}) {
    Deck plain = mixture_deck(3, 2, 7);
    plain.run.reductions = Reductions::ordered;
    plain.zero.knobs.param_persistence_threshold = 0;
    plain.zero.knobs.max_reuse_distance = 0;
    plain.zero.knobs.prefetch_bucket_size = prefetch;
    plain.zero.knobs.reduce_bucket_size = 2000;
    SCOPED_TRACE(::testing::Message() << "prefetch " << prefetch);
    expect_same_over_experts(plain, 1e-5);
  }
}

// At stage 0 DeepSpeed has no norm with all experts, unless it is in 16 bits and by its own Adam. A
// token's weights need not add up to 1.
TEST(DividedRun, DividedExpertsTrainTheSameAtStage0WithoutClipping) {
  Deck plain = mixture_deck(0, 2, 7, {"model.moe.normalised=false"});
  plain.zero.gradient_clipping = 0;
  plain.run.reductions = Reductions::ordered;
  const Trained want = train_in_groups(plain, 4);
  for (const int e : degrees()) {
    Deck deck = plain;
    deck.zero.parallel.expert = e;
    expect_near_losses(train_in_groups(deck, 4), want, 1e-5);
  }
}

// Both degrees that the ranks allow, equal or not.
template<class F>
void for_each_fold(const F& f) {
  for (const int t : degrees())
    for (const int e : degrees()) {
      SCOPED_TRACE(::testing::Message() << "tensors over " << t << ", experts over " << e);
      f(t, e);
    }
}

TEST(DividedRun, LayersAndExpertsTrainTheSameForTwentySteps) {
  Deck plain = mixture_deck(1);
  plain.model.kv_heads = 4;
  const Trained want = train_in_groups(plain, 20);
  for_each_fold([&](int t, int e) {
    for (const int stage : {1, 2, 3}) {
      SCOPED_TRACE(::testing::Message() << "stage " << stage);
      Deck deck = folded(plain, t, e);
      deck.zero.stage = stage;
      deck.run.memory_mode = stage == 2 ? MemoryMode::pooled : MemoryMode::strict;
      expect_near(train_in_groups(deck, 20), want, 1e-5);
    }
  });
}

// The folded deck with one sample per micro-batch, like the undivided run. Tokens choose experts by
// their places in a micro-batch, so with 7 tokens per sample a larger micro-batch would route them
// differently.
Deck folded_by_samples(const Deck& plain, int t, int e) {
  Deck deck = folded(plain, t, e);
  deck.zero.accumulation_steps = *deck.zero.accumulation_steps * t;
  return deck;
}

// With 7 tokens per sample some lanes have a row less than others.
TEST(DividedRun, LayersAndExpertsTrainTheSameWithUnequalLanesRecomputationAndOrderedSums) {
  for (const int stage : {1, 2}) {
    Deck plain = mixture_deck(stage, 2, 7);
    plain.model.kv_heads = 4;
    plain.run.activation_checkpointing = true;
    plain.run.reductions = Reductions::ordered;
    plain.zero.knobs.reduce_bucket_size = 2000;
    plain.zero.knobs.overlap_comm = stage == 1;
    const Trained want = train_in_groups(plain, 4);
    for_each_fold([&](int t, int e) {
      expect_near(train_in_groups(folded_by_samples(plain, t, e), 4), want, 1e-5);
    });
  }
}

// The router decides how many rows a lane has.
TEST(DividedRun, LayersAndExpertsTrainTheSameWithLearnedRouting) {
  const std::vector<std::string> learned{"model.routing=learned", "model.expert_room=4"};
  for (const bool again : {false, true}) {
    Deck plain = mixture_deck(1, 2, 7, learned);
    plain.model.kv_heads = 4;
    plain.run.activation_checkpointing = again;
    const int steps = again ? 4 : 20;
    const Trained want = train_in_groups(plain, steps);
    for_each_fold([&](int t, int e) {
      for (const int stage : {1, 2, 3}) {
        if (again && stage == 1) continue;
        SCOPED_TRACE(::testing::Message() << "stage " << stage << " " << again);
        Deck deck = folded(plain, t, e);
        deck.zero.stage = stage;
        deck.run.memory_mode = stage == 2 ? MemoryMode::pooled : MemoryMode::strict;
        expect_near(train_in_groups(deck, steps), want, 1e-5);
      }
    });
  }
}

// At stage 0 DeepSpeed's norm has no experts, so that clipping would differ.
TEST(DividedRun, LayersAndExpertsTrainNearlyTheSameIn16Bits) {
  for (const int stage : {0, 2, 3}) {
    Deck plain = mixture_deck(stage);
    plain.model.kv_heads = 4;
    if (stage == 0) plain.zero.gradient_clipping = 0;
    set_precision(plain, Dtype::bf16, Dtype::bf16);
    const Trained want = train_in_groups(plain, 4);
    for_each_fold([&](int t, int e) {
      expect_near_losses(train_in_groups(folded(plain, t, e), 4), want, 2e-3);
    });
  }
}

TEST(DividedRun, LayersAndExpertsTrainTheSameIfExpertsAreGathered) {
  Deck plain = mixture_deck(3, 2, 7);
  plain.model.kv_heads = 4;
  plain.run.reductions = Reductions::ordered;
  plain.zero.knobs.param_persistence_threshold = 0;
  plain.zero.knobs.max_reuse_distance = 0;
  plain.zero.knobs.prefetch_bucket_size = 0;
  plain.zero.knobs.reduce_bucket_size = 2000;
  const Trained want = train_in_groups(plain, 4);
  for_each_fold([&](int t, int e) {
    expect_near(train_in_groups(folded_by_samples(plain, t, e), 4), want, 1e-5);
  });
}

// An infinity in the experts of one rank reaches every rank.
TEST(DividedRun, AStepWhoseExpertsOverflowIsSkippedByAll) {
  for (const int e : degrees()) {
    Deck deck = mixture_deck(2);
    deck.zero.parallel.expert = e;
    set_precision(deck, Dtype::fp16, Dtype::fp16);
    deck.zero.precision.loss_scale = {true, 0x1p21, 5, 1, false, 1};
    const Trained o = train_in_groups(deck, 8);
    const auto skipped = std::count(o.skipped.begin(), o.skipped.end(), true);
    EXPECT_TRUE(skipped > 0 && skipped < std::ssize(o.skipped));
  }
}

}  // namespace
}  // namespace shardmark::test::divided_run_test
