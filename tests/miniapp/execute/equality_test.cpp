// SPDX-License-Identifier: Apache-2.0
// Rules: with `ordered` reductions all stages are bitwise equal at one rank count, with clipping or
// without, through MPI or shared memory; predictions equal measurements to the byte and to the
// call.
#include <map>
#include <tuple>

#include <gtest/gtest.h>

#include <core/plan/interpret/footprint.hpp>
#include <core/plan/interpret/volume.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::equality_test {
namespace {

Outcome train(const Deck& deck, int steps) {
  Training t(deck, MPI_COMM_WORLD);
  t.init();
  for (int s = 0; s < steps; ++s) t.step();
  EXPECT_EQ(t.hashes().disagreement, "");
  return {t.losses, t.norms, t.hashes()};
}

class Stages : public ::testing::TestWithParam<std::tuple<Family, double, bool, Dtype>> {};

TEST_P(Stages, AreBitwiseEqualWithOrderedReductions) {
  const auto [family, clipping, tied, dtype] = GetParam();
  std::vector<Outcome> all;
  for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
    for (int stage : {0, 1, 2, 3}) {
      Deck deck = small_deck(stage, 2 * world());
      deck.run.schedule = schedule;
      deck.run.reductions = Reductions::ordered;
      deck.comm.backend = stage % 2 == 0 ? Backend::mpi : Backend::automatic;
      deck.zero.gradient_clipping = clipping;
      deck.model.tied_head = tied;
      if (family == Family::llama) make_llama(deck.model);
      set_precision(deck, dtype, dtype);
      all.push_back(train(deck, 4));
      EXPECT_EQ(all.back().losses, all.front().losses)
          << to_string(schedule) << ", stage " << stage;
      EXPECT_EQ(all.back().norms, all.front().norms) << to_string(schedule) << ", stage " << stage;
      EXPECT_EQ(all.back().hashes, all.front().hashes)
          << to_string(schedule) << ", stage " << stage;
    }
  // Clipping was active exactly where it should be, so the comparison covers both cases.
  EXPECT_EQ(all[0].norms[0] > 0.1, true);
  EXPECT_EQ(all[0].norms[0] > clipping && clipping > 0, clipping == 0.1);
}

using ::testing::Bool, ::testing::Combine, ::testing::Values;
INSTANTIATE_TEST_SUITE_P(Gpt2, Stages,
                         Combine(Values(Family::gpt2), Values(0.1, 100.0, 0.0), Bool(),
                                 Values(Dtype::fp32)));
INSTANTIATE_TEST_SUITE_P(Llama, Stages,
                         Combine(Values(Family::llama), Values(0.1), Bool(), Values(Dtype::fp32)));
INSTANTIATE_TEST_SUITE_P(SixteenBits, Stages,
                         Combine(Values(Family::gpt2, Family::llama), Values(0.1), Values(false),
                                 Values(Dtype::bf16, Dtype::fp16)));
INSTANTIATE_TEST_SUITE_P(TiedSixteenBits, Stages,
                         Combine(Values(Family::llama), Values(0.1), Values(true),
                                 Values(Dtype::bf16)));

// A block that keeps only its input recomputes the same values.
TEST(ActivationCheckpointing, ChangesNoBit) {
  for (const Family family : {Family::gpt2, Family::llama})
    for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
      for (int stage : {0, 1, 2, 3}) {
        Deck deck = small_deck(stage, 4 * world(), 2);
        deck.run.schedule = schedule;
        deck.run.reductions = Reductions::ordered;
        deck.model.layers = 3;
        if (family == Family::llama) make_llama(deck.model);
        const Outcome kept = train(deck, 2);
        deck.run.activation_checkpointing = true;
        for (const bool reentrant : {false, true}) {
          deck.run.reentrant = reentrant;
          EXPECT_EQ(train(deck, 2), kept) << to_string(family) << " " << to_string(schedule) << " "
                                          << stage << " " << reentrant;
        }
      }
}

// With accumulation the order of sums depends on the stage: 0 equals 1, and 2 equals 3.
TEST(Accumulation, PairsOfStagesAreBitwiseEqualAndAllAreClose) {
  std::vector<Outcome> all;
  for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
    for (int stage : {0, 1, 2, 3}) {
      Deck deck = small_deck(stage, 6 * world(), 3);
      deck.run.schedule = schedule;
      deck.run.reductions = Reductions::ordered;
      all.push_back(train(deck, 3));
    }
  for (std::size_t i : {1U, 4U, 5U}) EXPECT_EQ(all[0], all[i]) << i;
  for (std::size_t i : {3U, 6U, 7U}) EXPECT_EQ(all[2], all[i]) << i;
  for (std::size_t s = 0; s < all[0].losses.size(); ++s)
    EXPECT_NEAR(all[0].losses[s], all[2].losses[s], 1e-6 * all[0].losses[s]);
}

// The same for 16-bit gradients, which are accumulated in their own type, and at stages 2 and 3 in
// fp32.
TEST(Accumulation, PairsOfStagesAreBitwiseEqualInSixteenBits) {
  for (Dtype dtype : {Dtype::bf16, Dtype::fp16})
    for (Dtype accum : {dtype, Dtype::fp32}) {
      std::map<int, Outcome> first;  // by pair of stages
      for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
        for (int stage : {0, 1, 2, 3}) {
          if (accum != dtype && stage < 2) continue;
          Deck deck = small_deck(stage, 6 * world(), 3);
          deck.run.schedule = schedule;
          deck.run.reductions = Reductions::ordered;
          set_precision(deck, dtype, accum);
          const Outcome outcome = train(deck, 3);
          EXPECT_EQ(first.try_emplace(stage / 2, outcome).first->second, outcome)
              << to_string(dtype) << " in " << to_string(accum) << ", " << to_string(schedule)
              << ", stage " << stage;
        }
    }
}

// One global batch gives the same step up to rounding, whether it is split into micro-batches or
// not.
void expect_one_step(const Deck& one, const Deck& four, double loss_bound, double norm_bound) {
  const Outcome a = train(one, 3), b = train(four, 3);
  for (std::size_t s = 0; s < a.losses.size(); ++s) {
    EXPECT_NEAR(a.losses[s], b.losses[s], loss_bound * a.losses[s]);
    EXPECT_NEAR(a.norms[s], b.norms[s], norm_bound * a.norms[s]);
  }
}

TEST(Accumulation, IsTheSameStepAsOneLargeBatch) {
  expect_one_step(small_deck(2, 4 * world(), 1), small_deck(2, 4 * world(), 4), 1e-6, 1e-5);
}

// DeepSpeed's BF16_Optimizer, which is that of stage 1 alone.
TEST(Accumulation, IsTheSameStepAsOneLargeBatchInTheBf16Optimizer) {
  Deck one = small_deck(1, 4 * world(), 1), four = small_deck(1, 4 * world(), 4);
  for (Deck* deck : {&one, &four}) {
    deck->run.schedule = Schedule::deepspeed;
    set_precision(*deck, Dtype::bf16, Dtype::fp32);
  }
  expect_one_step(one, four, 1e-3, 1e-2);
}

struct Shape {
  Family family;
  Schedule schedule;
  int stage;
  std::int64_t accumulation;
  bool tied;
  Reductions reductions;
  Compute compute;
  Dtype dtype = Dtype::fp32, grad_accum = Dtype::fp32;
  bool recompute = false;
};

void expect_as_predicted(const Shape& s) {
  SCOPED_TRACE(std::string(to_string(s.family)) + " " + std::string(to_string(s.schedule)) +
               " stage " + std::to_string(s.stage) + " accumulation " +
               std::to_string(s.accumulation) + (s.tied ? " tied " : " ") +
               std::string(to_string(s.reductions)) + " " + std::string(to_string(s.compute)) +
               (s.recompute ? " recomputed " : " ") + std::string(to_string(s.dtype)) + " in " +
               std::string(to_string(s.grad_accum)));
  Deck deck = small_deck(s.stage, 2 * world() * s.accumulation, s.accumulation);
  deck.model.tied_head = s.tied;
  if (s.family == Family::llama) make_llama(deck.model);
  deck.run.schedule = s.schedule;
  deck.run.reductions = s.reductions;
  deck.run.compute = s.compute;
  set_precision(deck, s.dtype, s.grad_accum);
  deck.run.activation_checkpointing = s.recompute;
  Training t(deck, MPI_COMM_WORLD);
  train_as_predicted(t, 3);
}

TEST(PredictedIsMeasured, EverywhereToTheByteAndToTheCall) {
  int shapes = 0;
  for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
    for (int stage : {0, 1, 2, 3})
      for (std::int64_t accumulation : {1, 3})
        for (Reductions r : {Reductions::native, Reductions::ordered}) {
          const bool tied = ++shapes % 2 == 0, ordered = r == Reductions::ordered;
          Shape s{Family::gpt2,         schedule, stage,         accumulation,
                  tied != (stage == 1), r,        Compute::train};
          expect_as_predicted(s);
          if (accumulation == 3) {
            s.family = Family::llama;
            s.recompute = ordered;
          } else {
            s.compute = Compute::none;
          }
          expect_as_predicted(s);
        }
  EXPECT_EQ(shapes, 32);
}

// (For the schedule deepspeed, the cover of its knobs has all types.)
TEST(PredictedIsMeasured, InSixteenBitsToo) {
  for (int stage : {0, 1, 2, 3}) {
    for (std::int64_t accumulation : {1, 3})
      for (Dtype dtype : {Dtype::bf16, Dtype::fp16})
        for (Dtype accum : {dtype, Dtype::fp32}) {
          if (stage == 0 && accum != dtype) continue;
          expect_as_predicted({Family::gpt2, Schedule::paper, stage, accumulation, false,
                               Reductions::native, Compute::train, dtype, accum});
        }
    expect_as_predicted({Family::llama, Schedule::deepspeed, stage, 1, false, Reductions::native,
                         Compute::train, Dtype::bf16, Dtype::bf16});
  }
}

}  // namespace
}  // namespace shardmark::test::equality_test
