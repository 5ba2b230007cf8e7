// SPDX-License-Identifier: Apache-2.0
// Rules of runs whose gradients are quantized: memory and calls are as predicted in every type,
// with every kind of bucket and together with the other parts of ZeRO++; the optimizer receives
// gradients that differ from the average by no more than the quantization allows; losses stay near
// those of a run without; and a repeated run gives the same bits.
#include <cmath>

#include <gtest/gtest.h>

#include <tests/support/training.hpp>

namespace shardmark::test::quantized_gradients_run_test {
namespace {

// Nodes of two ranks if there are four, and of one otherwise.
Deck quantized_deck(Dtype model, std::int64_t accumulation = 1) {
  Deck d = small_deck(3, 2 * world() * accumulation, accumulation);
  d.model.hidden = 48;
  d.model.heads = 2;
  d.model.vocab = 96;
  d.model.sequence = 24;
  set_precision(d, model, model);
  d.zero.precision.comm = Dtype::fp16;
  d.zero.precision.loss_scale.initial = 1024;
  d.zero.knobs.quantized_gradients = true;
  d.machine.ranks_per_node = world() == 4 ? 2 : 1;
  return d;
}

TEST(QuantizedGradients, LeaveLossesNearThoseWithout) {
  for (const Dtype dtype : {Dtype::fp32, Dtype::fp16}) {
    SCOPED_TRACE(to_string(dtype));
    Deck deck = quantized_deck(dtype, 2);
    expect_losses_near_those_without(deck, deck.zero.knobs.quantized_gradients);
  }
}

TEST(QuantizedGradients, AreAsPredictedInEveryBucket) {
  for (int variant = 0; variant < 5; ++variant) {
    SCOPED_TRACE(variant);
    Deck deck = quantized_deck(variant == 0 ? Dtype::bf16 : Dtype::fp16, 2);
    deck.zero.knobs.contiguous_gradients = variant != 1;
    deck.zero.knobs.overlap_comm = variant != 2;
    if (variant < 2) deck.zero.knobs.reduce_bucket_size = 4000;  // smaller than some gradients
    if (variant == 3) deck.zero.offload_optimizer.enabled = true;
    if (variant == 4) deck.run.reductions = Reductions::ordered;
    train_in_groups(deck);
  }
}

TEST(QuantizedGradients, AreAsPredictedBesideQuantizedWeightsAndSecondaryCopies) {
  if (world() == 3) GTEST_SKIP() << "three ranks have no multiple of 8 of every parameter";
  Deck deck = quantized_deck(Dtype::fp16, 2);
  deck.model.hidden = 64;
  deck.zero.knobs.quantized_weights = true;
  deck.zero.knobs.hpz_partition_size = deck.machine.ranks_per_node;
  train_in_groups(deck);
}

// One step of SGD without momentum moves each parameter by its gradient.
TEST(QuantizedGradients, AreWithinTheBound) {
  Deck deck = quantized_deck(Dtype::fp32);
  deck.zero.optimizer.type = Optimizer::sgd;
  deck.zero.optimizer.momentum = 0;
  deck.zero.optimizer.weight_decay = 0;
  deck.zero.optimizer.lr = 1;
  deck.zero.gradient_clipping = 0;
  deck.zero.precision.comm = Dtype::fp16;
  const auto moved_by = [&](bool quantized) {
    deck.zero.knobs.quantized_gradients = quantized;
    Training t(deck, MPI_COMM_WORLD);
    t.init();
    std::vector<std::vector<float>> moves;
    for (std::size_t id = 0; id < t.program().model.params.size(); ++id)
      moves.push_back(t.tensor(static_cast<int>(id)));
    t.step();
    for (std::size_t id = 0; id < moves.size(); ++id) {
      const std::vector<float> after = t.tensor(static_cast<int>(id));
      for (std::size_t i = 0; i < after.size(); ++i) moves[id][i] -= after[i];
    }
    return moves;
  };
  const auto have = moved_by(true), want = moved_by(false);
  const auto ranks = static_cast<float>(world());
  bool changed = false;
  for (std::size_t id = 0; id < want.size(); ++id) {
    // Each rank's own gradient is larger than the average, but no more than by the number of ranks
    // for these data; each of the two quantizations loses half a step, or a whole one.
    float largest = 0;
    for (const float v : want[id]) largest = std::max(largest, std::abs(v));
    const float bound = 2 * ranks * largest / 8;
    double error = 0, size = 0;
    for (std::size_t i = 0; i < want[id].size(); ++i) {
      const float difference = have[id][i] - want[id][i];
      ASSERT_LE(std::abs(difference), bound + 1e-5F) << "parameter " << id << ", element " << i;
      error += difference * difference;
      size += want[id][i] * want[id][i];
      changed = changed || difference != 0;
    }
    EXPECT_LE(error, 0.05 * size + 1e-9) << "parameter " << id;
  }
  EXPECT_EQ(changed, world() > 1);
}

}  // namespace
}  // namespace shardmark::test::quantized_gradients_run_test
