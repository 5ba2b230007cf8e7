// SPDX-License-Identifier: Apache-2.0
// Rules: with `ordered` reductions all stages are bitwise equal at one rank count, clipping active
// or not, through MPI or shared memory; what is predicted is what is measured, to the byte and to
// the call.
#include <tuple>

#include <gtest/gtest.h>

#include <core/plan/footprint.hpp>
#include <core/plan/volume.hpp>
#include <tests/app/training.hpp>

namespace shardmark {
namespace {

using testing::small_deck;
using testing::Training;

int world() {
  int n = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &n);
  return n;
}

struct Outcome {
  std::vector<double> losses, norms;
  StateHashes hashes;
  bool operator==(const Outcome&) const = default;
};

Outcome train(const Deck& deck, int steps) {
  Training t(deck, MPI_COMM_WORLD);
  t.init();
  for (int s = 0; s < steps; ++s) t.step();
  EXPECT_EQ(t.hashes().disagreement, "");
  return {t.losses, t.norms, t.hashes()};
}

class Stages : public ::testing::TestWithParam<std::tuple<double, bool>> {};

TEST_P(Stages, AreBitwiseEqualWithOrderedReductions) {
  const auto [clipping, tied] = GetParam();
  std::vector<Outcome> all;
  for (const char* schedule : {"paper", "deepspeed"})
    for (int stage : {0, 1, 2, 3}) {
      Deck deck = small_deck(stage, 2 * world());
      deck.run.schedule = schedule;
      deck.run.reductions = Reductions::ordered;
      deck.comm.backend = stage % 2 == 0 ? "mpi" : "auto";
      deck.zero.gradient_clipping = clipping;
      deck.model.tied_head = tied;
      all.push_back(train(deck, 4));
      EXPECT_EQ(all.back().losses, all.front().losses) << schedule << ", stage " << stage;
      EXPECT_EQ(all.back().norms, all.front().norms) << schedule << ", stage " << stage;
      EXPECT_EQ(all.back().hashes, all.front().hashes) << schedule << ", stage " << stage;
    }
  // The comparison means something: clipping was active exactly where it was meant to be.
  EXPECT_EQ(all[0].norms[0] > 0.1, true);
  EXPECT_EQ(all[0].norms[0] > clipping && clipping > 0, clipping == 0.1);
}

INSTANTIATE_TEST_SUITE_P(Clipping, Stages,
                         ::testing::Combine(::testing::Values(0.1, 100.0, 0.0), ::testing::Bool()));

// With accumulation the sums have another order: {0, 1} are equal, and {2, 3} are.
TEST(Accumulation, PairsOfStagesAreBitwiseEqualAndAllAreClose) {
  std::vector<Outcome> all;
  for (const char* schedule : {"paper", "deepspeed"})
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

// One global batch, cut into micro-batches or not: the same step up to rounding.
TEST(Accumulation, IsTheSameStepAsOneLargeBatch) {
  Deck one = small_deck(2, 4 * world(), 1), four = small_deck(2, 4 * world(), 4);
  const Outcome a = train(one, 3), b = train(four, 3);
  for (std::size_t s = 0; s < a.losses.size(); ++s) {
    EXPECT_NEAR(a.losses[s], b.losses[s], 1e-6 * a.losses[s]);
    EXPECT_NEAR(a.norms[s], b.norms[s], 1e-5 * a.norms[s]);
  }
}

struct Shape {
  const char* schedule;
  int stage;
  std::int64_t accumulation;
  bool tied;
  Reductions reductions;
  Compute compute;
};

void expect_as_predicted(const Shape& s) {
  SCOPED_TRACE(std::string(s.schedule) + " stage " + std::to_string(s.stage) + " accumulation " +
               std::to_string(s.accumulation) + (s.tied ? " tied " : " ") +
               std::string(to_string(s.reductions)) + " " + std::string(to_string(s.compute)));
  Deck deck = small_deck(s.stage, 2 * world() * s.accumulation, s.accumulation);
  deck.model.tied_head = s.tied;
  deck.run.schedule = s.schedule;
  deck.run.reductions = s.reductions;
  deck.run.compute = s.compute;
  Training t(deck, MPI_COMM_WORLD);
  t.init();
  for (int i = 0; i < 3; ++i) t.step();
  expect_memory_as_predicted(t);
  EXPECT_EQ(t.counting().volume(), t.runner().predicted());
}

TEST(PredictedIsMeasured, EverywhereToTheByteAndToTheCall) {
  int shapes = 0;
  for (const char* schedule : {"paper", "deepspeed"})
    for (int stage : {0, 1, 2, 3})
      for (std::int64_t accumulation : {1, 3})
        for (bool tied : {false, true})
          for (Reductions r : {Reductions::native, Reductions::ordered}) {
            expect_as_predicted({schedule, stage, accumulation, tied, r, Compute::train});
            if (!tied) expect_as_predicted({schedule, stage, accumulation, tied, r, Compute::none});
            ++shapes;
          }
  EXPECT_EQ(shapes, 64);
}

}  // namespace
}  // namespace shardmark
