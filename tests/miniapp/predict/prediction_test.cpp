// SPDX-License-Identifier: Apache-2.0
// Rules: a step lasts as long as that of the slowest rank, whichever rank predicts it; the interval
// of a prediction holds the steps of all placements of the machine, and a run is compared with the
// prediction of the placement that it had.
#include <gtest/gtest.h>

#include <miniapp/predict/prediction.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::prediction_test {
namespace {

// One level of network and a memory that take 1 GB/s, without latencies.
Machine machine() {
  Machine m;
  m.device.memory_bytes_per_s = 1e9;
  m.device.stream_efficiency = 1;
  NetworkLevel level;
  level.link.bytes_per_s = 1e9;
  m.network.push_back(level);
  return m;
}

TEST(Prediction, EveryRankPredictsTheSameStep) {
  for (const int stage : {0, 1, 2, 3})
    for (const int world : {2, 5, 8}) {
      Deck deck = deepspeed_deck(stage);
      deck.run.compute = Compute::none;
      double slowest = 0;
      for (int rank = 0; rank < world; ++rank) {
        const Program own = test::program(deck, world, rank);
        const PredictedPoint point = predict_program(deck, own, machine(), world);
        ASSERT_GT(point.step_s, 0);
        if (rank == 0) slowest = point.step_s;
        EXPECT_NEAR(point.step_s, slowest, 1e-9 * slowest)
            << "stage " << stage << ", rank " << rank << " of " << world;
      }
    }
}

TEST(Prediction, KnowsWhereTheCoresAre) {
  Machine m = machine();
  for (const auto& [distance_s, bytes_per_s] : {std::pair{30e-9, 2e9}, {180e-9, 5e8}}) {
    Placement& p = m.placements.emplace_back();
    p.core_to_core_s = distance_s;
    p.part = 0.5;
    p.network = m.network;
    p.network[0].link.bytes_per_s = bytes_per_s;
  }
  Deck deck = deepspeed_deck(3);
  deck.run.compute = Compute::none;
  const Program program = test::program(deck, 2, 0);
  const std::vector<Prediction> all = predict_run(deck, program, m, "m.json", 2);
  ASSERT_EQ(all.size(), 3U);
  const double near_s = in_placement(all, 31e-9).point.step_s;
  const double far_s = in_placement(all, 150e-9).point.step_s;
  const PredictedPoint& mean = in_placement(all, 0).point;
  EXPECT_LT(near_s, mean.step_s);
  EXPECT_GT(far_s, mean.step_s);
  EXPECT_LT(mean.step_s_low, near_s);
  EXPECT_GT(mean.step_s_high, far_s);
}

}  // namespace
}  // namespace shardmark::test::prediction_test
