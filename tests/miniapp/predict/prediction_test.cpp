// SPDX-License-Identifier: Apache-2.0
// Rule: a step lasts as long as that of the slowest rank, whichever rank predicts it.
#include <gtest/gtest.h>

#include <miniapp/predict/prediction.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::prediction_test {
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
      Deck deck = testing::deepspeed_deck(stage);
      deck.run.compute = Compute::none;
      double slowest = 0;
      for (int rank = 0; rank < world; ++rank) {
        const Program own = testing::program(deck, world, rank);
        const PredictedPoint point = predict_program(deck, own, machine(), world);
        ASSERT_GT(point.step_s, 0);
        if (rank == 0) slowest = point.step_s;
        EXPECT_NEAR(point.step_s, slowest, 1e-9 * slowest)
            << "stage " << stage << ", rank " << rank << " of " << world;
      }
    }
}

}  // namespace
}  // namespace shardmark::prediction_test
