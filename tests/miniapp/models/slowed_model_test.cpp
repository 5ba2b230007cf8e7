// SPDX-License-Identifier: Apache-2.0
// Rule: where a rank computes more slowly, the time that is added is its own and no waiting for
// collectives, although they progress in it.
#include <gtest/gtest.h>

#include <miniapp/models/slowed_model.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::slowed_model_test {
namespace {

// The factor is so large that the executor's own work does not count, and a test on several ranks
// would take a minute.
TEST(SlowedModel, adds_time_that_is_not_exposed) {
  if (world() > 1) GTEST_SKIP() << "made for one rank";
  SlowedModel* slowed = nullptr;
  Training t(small_deck(3, 2 * 12), MPI_COMM_WORLD, {}, [&](std::unique_ptr<Model> model) {
    auto own = std::make_unique<SlowedModel>(std::move(model), t.context(), nullptr);
    slowed = own.get();
    return own;
  });
  t.init();
  const LaneTimes before = t.executor().times();
  Slowness slowness;
  slowness.factor = 20;
  slowed->begin_step(slowness);
  t.bare_step();
  EXPECT_GT(slowed->injected_ns(), 0);
  EXPECT_GE(t.executor().times().since(before).own(), slowed->injected_ns());
}

}  // namespace
}  // namespace shardmark::test::slowed_model_test
