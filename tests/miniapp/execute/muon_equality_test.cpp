// SPDX-License-Identifier: Apache-2.0
// Rules of Muon at DeepSpeed's stages: with `ordered` reductions neither the stage nor how
// gradients travel changes a bit, wherever matrices are cut by partitions, but that stage 0 clips
// before updates are made. The same holds with the optimizer on the host and in files.
#include <gtest/gtest.h>

#include <tests/miniapp/execute/muon_run.hpp>

namespace shardmark::test::muon_equality_test {
namespace {

using namespace muon_run;

TEST(Muon, is_bitwise_equal_however_gradients_travel) {
  for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon}) {
    const Outcome want = run(deck_of(1, muon));
    EXPECT_NE(want.hashes.of[State::momentum], 0U);
    EXPECT_EQ(run(deck_of(2, muon)), want);
    for (const std::int64_t bucket : {100, 2000}) {
      Deck deck = deck_of(2, muon);
      deck.zero.knobs.reduce_bucket_size = bucket;
      EXPECT_EQ(run(deck), want) << "buckets of " << bucket;
      deck.zero.knobs.use_multi_rank_bucket_allreduce = false;
      EXPECT_EQ(run(deck), want) << "reduced to their owners, buckets of " << bucket;
      deck.zero.knobs.reduce_scatter = false;
      EXPECT_EQ(run(deck), want) << "without reduce_scatter, buckets of " << bucket;
    }
    Deck deck = deck_of(2, muon);
    deck.zero.knobs.contiguous_gradients = false;
    EXPECT_EQ(run(deck), want) << "without contiguous_gradients";
    deck = deck_of(1, muon);
    deck.zero.knobs.overlap_comm = deck.zero.knobs.round_robin_gradients = true;
    deck.run.memory_mode = MemoryMode::pooled;
    EXPECT_EQ(run(deck), want) << "dealt round robin, with overlap";
  }
}

// Whole matrices are gathered, and each rank makes the updates of some of them.
TEST(Muon, is_bitwise_equal_at_stage_3) {
  for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon}) {
    const Outcome want = run(deck_of(1, muon));
    EXPECT_EQ(run(deck_of(3, muon)), want);
    for (const std::int64_t size : {500, 3000}) {
      Deck deck = deck_of(3, muon);
      deck.zero.knobs.reduce_bucket_size = deck.zero.knobs.sub_group_size = size;
      EXPECT_EQ(run(deck), want) << "buckets and sub-groups of " << size;
    }
    Deck deck = deck_of(3, muon);
    deck.zero.knobs.reduce_bucket_size = 1'000'000;  // all matrices at once
    deck.zero.knobs.contiguous_gradients = deck.zero.knobs.overlap_comm = false;
    deck.run.memory_mode = MemoryMode::pooled;
    EXPECT_EQ(run(deck), want) << "without contiguous_gradients";
    deck = deck_of(3, muon);
    deck.zero.offload_param.enabled = true;
    EXPECT_EQ(run(deck), want) << "with parameters on the host";
  }
}

// Every rank then makes all updates from gathered gradients and momenta.
TEST(Muon, is_bitwise_equal_with_the_optimizer_on_the_host) {
  for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon}) {
    const Outcome want = run(deck_of(1, muon));
    for (const int stage : {1, 2, 3}) {
      Deck deck = offloaded(deck_of(stage, muon));
      EXPECT_EQ(run(deck), want) << "stage " << stage;
      deck.zero.knobs.reduce_bucket_size = 100;
      deck.zero.knobs.reduce_scatter = false;
      deck.zero.knobs.overlap_comm = deck.zero.knobs.round_robin_gradients = true;
      deck.run.memory_mode = MemoryMode::pooled;
      EXPECT_EQ(run(deck), want) << "stage " << stage << ", dealt round robin, with overlap";
    }
  }
}

// The momentum is read, updated and written back before the other updates of a step.
TEST(Muon, is_bitwise_equal_with_states_in_files) {
  for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon}) {
    const Outcome want = run(deck_of(1, muon));
    for (const bool pipelined : {false, true})
      for (const bool in_memory : {false, true}) {
        SCOPED_TRACE(pipelined);
        Deck deck = in_files(deck_of(3, muon), pipelined);
        deck.zero.knobs.muon_momentum_in_memory = in_memory;
        EXPECT_EQ(run(deck), want) << in_memory;
        const Program p = Training(deck, MPI_COMM_WORLD).program();
        int files = 0;
        for (const Slot& s : p.slots)
          files += s.tier == Tier::nvme && s.name.starts_with("momentum");
        EXPECT_GT(files, 0);
      }
    Deck deck = in_files(deck_of(3, muon));
    deck.zero.offload_param = deck.zero.offload_optimizer;
    deck.zero.offload_param.buffer_size = 20'000;
    deck.zero.offload_param.buffer_count = 32;
    deck.zero.offload_param.max_in_cpu = 0;
    deck.run.memory_mode = MemoryMode::pooled;
    EXPECT_EQ(run(deck), want) << "with parameters in files";
    deck.zero.offload_optimizer = {};
    EXPECT_EQ(run(deck), want) << "with parameters alone in files";
  }
}

// Without clipping the order of clip and update does not matter.
TEST(Muon, is_bitwise_equal_at_stage_0_without_clipping) {
  for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon}) {
    const auto unclipped = [&](int stage) {
      Deck deck = deck_of(stage, muon);
      deck.zero.gradient_clipping = 0;
      return deck;
    };
    const Outcome want = run(unclipped(1)), have = run(unclipped(0));
    EXPECT_EQ(have.losses, want.losses);
    EXPECT_EQ(have.hashes, want.hashes);
    Deck pooled = unclipped(0);
    pooled.run.memory_mode = MemoryMode::pooled;
    EXPECT_EQ(run(pooled).hashes, want.hashes);
  }
}

// Stages 1 and 2 clip the updates, whose norm is large. Stage 0 clips the gradients, and an update
// does not grow with them.
TEST(Muon, clips_gradients_at_stage_0_and_updates_at_the_others) {
  for (const Dtype type : {Dtype::fp32, Dtype::bf16, Dtype::fp16}) {
    const auto distance = [&](int stage, double clipping) {
      Deck deck = deck_of(stage);
      set_precision(deck, type, type);
      deck.zero.gradient_clipping = clipping;
      return distance_of_a_matrix(deck);
    };
    const double want = distance(0, 0);
    EXPECT_NEAR(distance(0, 0.01), want, 0.1 * want) << to_string(type);
    for (const int stage : {1, 3})
      EXPECT_LT(distance(stage, 0.01), 0.1 * want) << to_string(type) << ", stage " << stage;
  }
}

// The momentum of matrices has the type of their gradients.
TEST(Muon, is_bitwise_equal_at_stages_1_to_3_in_16_bits) {
  for (const Dtype half : {Dtype::bf16, Dtype::fp16})
    for (const Optimizer muon : {Optimizer::muon, Optimizer::standard_muon}) {
      const auto in_half = [&](int stage) {
        Deck deck = deck_of(stage, muon);
        set_precision(deck, half, half);
        return deck;
      };
      const Outcome want = run(in_half(1));
      for (const int stage : {2, 3})
        EXPECT_EQ(run(in_half(stage)), want) << to_string(half) << ", stage " << stage;
      Deck deck = in_half(2);
      deck.zero.knobs.contiguous_gradients = false;
      deck.zero.knobs.reduce_bucket_size = 100;
      EXPECT_EQ(run(deck), want) << to_string(half);
      const Program p = Training(deck, MPI_COMM_WORLD).program();
      for (const Slot& s : p.slots)
        if (s.category == Category::momentum) {
          EXPECT_EQ(s.dtype, s.name == "momentum.0" ? half : Dtype::fp32) << s.name;
        }
    }
}

// AdamW's gradients add up in fp32, those of matrices in the type of the parameters. Gradients are
// sent whole, since DeepSpeed loses some of them otherwise.
TEST(Muon, is_bitwise_equal_where_gradients_add_up_in_fp32) {
  for (const Dtype half : {Dtype::bf16, Dtype::fp16}) {
    SCOPED_TRACE(to_string(half));
    const auto whole = [&](int stage) {
      Deck deck = with_fp32_sums(half, stage);
      deck.zero.knobs.reduce_scatter = false;
      return deck;
    };
    const Outcome want = run(whole(2));
    if (half == Dtype::fp16) {
      EXPECT_EQ(run(whole(1)), want);  // bf16 has an optimizer class of its own there
    }
    Deck deck = whole(2);
    deck.zero.knobs.contiguous_gradients = false;
    deck.zero.knobs.reduce_bucket_size = 100;
    EXPECT_EQ(run(deck), want) << "without contiguous_gradients";
    deck = whole(2);
    deck.zero.knobs.overlap_comm = deck.zero.knobs.round_robin_gradients = true;
    deck.run.memory_mode = MemoryMode::pooled;
    EXPECT_EQ(run(deck), want) << "dealt round robin, with overlap";
    EXPECT_EQ(run(offloaded(whole(1))), run(offloaded(whole(2)))) << "on the host";
  }
}

// Updates do not grow with the loss, so the step does not depend on its scale.
TEST(Muon, does_not_depend_on_the_loss_scale) {
  const double want = distance_of_a_matrix(deck_of(2));
  EXPECT_GT(want, 0);
  for (const int stage : {2, 3})
    for (const double scale : {1.0, 256.0, 4096.0}) {
      SCOPED_TRACE(scale);
      Deck deck = deck_of(stage);
      set_precision(deck, Dtype::fp16, Dtype::fp16);
      deck.zero.precision.loss_scale = {.dynamic = false, .initial = scale};
      EXPECT_NEAR(distance_of_a_matrix(deck), want, 0.1 * want) << "stage " << stage;
      if (stage == 3) set_precision(deck, Dtype::fp16, Dtype::fp32);
      deck.zero.precision.loss_scale = {.dynamic = false, .initial = scale};
      EXPECT_NEAR(distance_of_a_matrix(offloaded(deck)), want, 0.1 * want)
          << "stage " << stage << ", offloaded";
    }
}

}  // namespace
}  // namespace shardmark::test::muon_equality_test
