// SPDX-License-Identifier: Apache-2.0
// Rules of training in 16 bits: the loss scale of fp16 falls until gradients fit, steps that
// overflow change no state, and training continues, equally at every stage; losses stay close to
// those of fp32; all ranks compute bf16 products in one way, which the report names.
#include <algorithm>
#include <cmath>
#include <cstdlib>

#include <gtest/gtest.h>

#include <core/plan/interpret/footprint.hpp>
#include <miniapp/run/bf16_choice.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::sixteen_bit_run_test {
namespace {

// The scale is far too large at first, and doubles after every second step that fits.
Deck scaling_deck(Schedule schedule, int stage) {
  Deck deck = small_deck(stage, 2 * world());
  deck.run.schedule = schedule;
  deck.run.reductions = Reductions::ordered;
  set_precision(deck, Dtype::fp16, Dtype::fp16);
  LossScaleSpec& scale = deck.zero.precision.loss_scale;
  scale.dynamic = true;
  scale.initial = 0x1p26;
  scale.hysteresis = 1;
  scale.window = 2;
  return deck;
}

TEST(LossScale, StepsThatOverflowAreSkippedAndTrainingRecoversAlikeAtEveryStage) {
  constexpr int steps = 16;
  std::vector<bool> pattern;
  std::vector<double> losses;
  StateHashes final_hashes;
  for (const Schedule schedule : {Schedule::paper, Schedule::deepspeed})
    for (int stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(std::string(to_string(schedule)) + " stage " + std::to_string(stage));
      const Deck deck = scaling_deck(schedule, stage);
      Training t(deck, MPI_COMM_WORLD);
      t.init();
      StateHashes before = t.hashes();
      for (int s = 0; s < steps; ++s) {
        t.step();
        const StateHashes after = t.hashes();
        EXPECT_EQ(after.disagreement, "");
        EXPECT_EQ(after == before, t.skipped.back()) << "step " << s;
        EXPECT_TRUE(std::isfinite(t.losses.back())) << "the loss carries no scale";
        before = after;
      }
      const Footprint f = footprint(t.program(), segments_of_runs(t.planned_runs()));
      EXPECT_EQ(t.memory()[Tier::device].peak_bytes, f[Tier::device].peak_bytes);
      EXPECT_EQ(t.counting().volume(), volume_of_runs(t.program(), t.planned_runs()));
      if (pattern.empty()) pattern = t.skipped, losses = t.losses, final_hashes = before;
      EXPECT_EQ(t.skipped, pattern);
      EXPECT_EQ(t.losses, losses);
      EXPECT_EQ(before, final_hashes);
    }
  EXPECT_TRUE(pattern.front());
  const auto first_good = std::find(pattern.begin(), pattern.end(), false);
  EXPECT_NE(first_good, pattern.end());
  EXPECT_NE(std::find(first_good, pattern.end(), true), pattern.end())
      << "the scale never rose to where gradients overflow again";
}

// 40 steps on data with structure. How far a 16-bit training drifts from fp32's depends on the
// model; here it stays within a hundredth of the drop in loss (measured: a few thousandths in
// bf16).
TEST(SixteenBits, LossesStayCloseToThoseOfFp32) {
  const auto last_loss = [](Dtype dtype) {
    Deck deck = small_deck(2, 4 * world());
    deck.data.source = DataSource::markov;
    deck.zero.optimizer.lr = 3e-3;
    set_precision(deck, dtype, dtype);
    Training t(deck, MPI_COMM_WORLD);
    t.init();
    for (int s = 0; s < 40; ++s) t.step();
    return std::pair(t.losses.front(), t.losses.back());
  };
  const auto [first, last] = last_loss(Dtype::fp32);
  EXPECT_LT(last, first - 0.3);
  for (Dtype dtype : {Dtype::bf16, Dtype::fp16}) {
    const double distance = std::abs(last_loss(dtype).second - last) / (first - last);
    RecordProperty(std::string(to_string(dtype)), std::to_string(distance));
    EXPECT_LT(distance, 0.01) << to_string(dtype);
  }
}

constexpr const char* variable = "SHARDMARK_BF16_PRODUCTS";
constexpr std::int64_t cap_bytes = std::int64_t{18} << 20;

struct Bf16Choices : ::testing::Test {
  Bf16Choice choose(Dtype dtype) {
    Deck deck = small_deck(0, world());
    set_precision(deck, dtype, dtype);
    return choose_bf16_products(deck, cap_bytes, Space(), peers);
  }
  void TearDown() override { unsetenv(variable); }

  std::unique_ptr<Communicator> lane =
      make_communicator(Backend::mpi, MPI_COMM_WORLD, mpi_options(Reductions::native));
  Peers peers{*lane};
};

TEST_F(Bf16Choices, IsMeasuredOnceAndTheSameOnAllRanks) {
  const Bf16Choice choice = choose(Dtype::bf16);
  EXPECT_NE(choice.reason.find(to_string(choice.products)), std::string::npos) << choice.reason;
  for (const Bf16Products products : peers.gather(choice.products))
    EXPECT_EQ(products, choice.products);
  EXPECT_EQ(choose(Dtype::fp32).reason, "");
  EXPECT_EQ(choose(Dtype::fp16).reason, "");
}

TEST_F(Bf16Choices, CanBeForced) {
  setenv(variable, "widened", 1);
  const Bf16Choice choice = choose(Dtype::bf16);
  EXPECT_EQ(choice.products, Bf16Products::widened);
  EXPECT_NE(choice.reason.find(variable), std::string::npos) << choice.reason;
  setenv(variable, "native", 1);
  if (has_native_bf16(Space())) {
    EXPECT_EQ(choose(Dtype::bf16).products, Bf16Products::native);
  } else {
    EXPECT_THROW(choose(Dtype::bf16), AgreedError);
  }
}

TEST_F(Bf16Choices, AnotherWordIsAnErrorOnAllRanks) {
  setenv(variable, "fast", 1);
  try {
    choose(Dtype::bf16);
    FAIL();
  } catch (const AgreedError& e) {
    EXPECT_EQ(e.status(), ExitStatus::usage);
    EXPECT_EQ(peers.rank() == 0, std::string(e.what()).find("= fast") != std::string::npos);
  }
}

}  // namespace
}  // namespace shardmark::test::sixteen_bit_run_test
