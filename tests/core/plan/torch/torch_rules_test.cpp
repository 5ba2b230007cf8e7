// SPDX-License-Identifier: Apache-2.0
// Rules of PyTorch's schedules that do not need a recording: who updates a tensor under
// ZeroRedundancyOptimizer, where buckets end, how long DistributedDataParallel's steps differ, and
// by what fully_shard divides gradients.
#include <gtest/gtest.h>

#include <core/plan/torch/ddp_buckets.hpp>
#include <core/plan/torch/fsdp_context.hpp>
#include <tests/support/programs.hpp>

namespace shardmark::test::torch_rules_test {
namespace {

ModelShape model_of(const std::vector<std::int64_t>& sizes) {
  ModelShape model;
  for (const std::int64_t elems : sizes) {
    Param p;
    p.elems = elems;
    model.params.push_back(p);
  }
  return model;
}

Program ddp_program(void (*change)(TorchSpec&)) {
  Deck d = gpt2_deck(0);
  d.run.schedule = Schedule::torch;
  change(d.torch);
  return program(d, 2, 0, 6);
}

TEST(TorchRules, TheLargestTensorsGoFirstToTheRankThatHasLeast) {
  const ModelShape model = model_of({10, 50, 20, 40, 30});
  const ZeroOwners owners = zero_owners(model, {0, 1, 2, 3, 4}, 2);
  EXPECT_EQ(owners.order, (std::vector<int>{1, 3, 4, 2, 0}));
  EXPECT_EQ(owners.rank_of, (std::vector<int>{0, 0, 0, 1, 1}));
}

TEST(TorchRules, ATensorThatNeedsNoGradientHasNoOwner) {
  const ZeroOwners owners = zero_owners(model_of({10, 20, 30}), {0, 2}, 2);
  EXPECT_EQ(owners.rank_of, (std::vector<int>{1, -1, 0}));
}

TEST(TorchRules, ABucketEndsOnceItHasReachedItsCap) {
  const ModelShape model = model_of({3, 1, 4, 1, 5});
  const DdpBuckets buckets = cut_into_buckets(model, {4, 3, 2, 1, 0}, {16, 24}, 4);
  EXPECT_EQ(buckets, (DdpBuckets{{4}, {3, 2, 1}, {0}}));
}

TEST(TorchRules, CapsAreThoseOfPyTorch) {
  TorchSpec spec;
  EXPECT_EQ(bucket_caps(spec), (std::vector<std::int64_t>{1 << 20, 25 << 20}));
  spec.bucket_cap_mb = 0.5;
  EXPECT_EQ(bucket_caps(spec), std::vector<std::int64_t>{1 << 19});
}

// Unused parameters must be found in the first step, too, so buckets cannot wait for an order.
TEST(TorchRules, TheFirstStepHasOneBucketUnlessParametersMayBeUnused) {
  const ModelShape model = model_of({2, 2, 2, 2});
  TorchSpec spec;
  spec.bucket_cap_mb = 16.0 / (1 << 20);
  const auto first = [&] { return first_buckets(model, spec, {0, 1, 2, 3}, 4); };
  EXPECT_EQ(first(), (DdpBuckets{{0, 1, 2, 3}}));
  spec.find_unused_parameters = true;
  EXPECT_EQ(first(), (DdpBuckets{{2, 3}, {0, 1}}));
  spec.static_graph = true;
  EXPECT_EQ(first(), (DdpBuckets{{0, 1, 2, 3}}));
}

TEST(TorchRules, ABiasIsReadyBeforeItsMatrixAndAWeightOfANormBeforeItsBias) {
  ModelSpec spec;
  spec.family = Family::list;
  spec.modules.push_back({"norm", {4, 4}});
  spec.modules.back().shapes = {{4}, {4}};
  spec.modules.push_back({"linear", {16, 4}});
  spec.modules.back().shapes = {{4, 4}, {4}};
  EXPECT_EQ(torch_ready_order(build_model_shape(spec)), (std::vector<int>{3, 2, 0, 1}));
}

TEST(TorchRules, StepsDifferUntilTheBucketsAreRebuilt) {
  EXPECT_EQ(ddp_program([](TorchSpec&) {}).steps.size(), 3u);
  EXPECT_EQ(ddp_program([](TorchSpec& t) { t.static_graph = true; }).steps.size(), 4u);
  EXPECT_EQ(ddp_program([](TorchSpec& t) { t.find_unused_parameters = true; }).steps.size(), 1u);
}

TEST(TorchRules, OnlyTheLastMicroBatchIsReducedWithoutSync) {
  const auto reductions = [](const Program& p, int micro) {
    const Step& step = p.steps.back();
    int count = 0;
    for (const Event& e : p.segments[step.micros[micro]].events)
      count += e.op == Op::all_reduce && e.phase == Phase::backward;
    return count;
  };
  const Program once = ddp_program([](TorchSpec&) {});
  const Program each = ddp_program([](TorchSpec& t) { t.no_sync = false; });
  for (int micro = 0; micro < 6; ++micro) {
    EXPECT_EQ(reductions(once, micro) > 0, micro == 5);
    EXPECT_GT(reductions(each, micro), 0);
  }
}

TEST(TorchRules, GradientsAreAveragedUnlessTheyMayOverflow) {
  TorchSpec spec;
  GradientDivision d = gradient_division(spec, Dtype::fp32, 4, 2);
  EXPECT_EQ(d.scatter, Reduction::average);
  EXPECT_EQ(d.replicas, Reduction::average);
  d = gradient_division(spec, Dtype::fp16, 4, 2);  // half of the factors before the sum
  EXPECT_EQ(d.scatter, Reduction::sum);
  EXPECT_EQ(d.before * d.after, 8);
  EXPECT_EQ(d.before, 4);
  spec.gradient_divide_factor = 3;
  EXPECT_EQ(gradient_division(spec, Dtype::fp32, 4, 2).before, 3);
}

}  // namespace
}  // namespace shardmark::test::torch_rules_test
