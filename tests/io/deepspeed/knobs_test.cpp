// SPDX-License-Identifier: Apache-2.0
// Rule: what a DeepSpeed config says about ZeRO's knobs is read as DeepSpeed would use
// it, and what its engine refuses is refused.
#include <tests/io/deepspeed/spec.hpp>

namespace shardmark::test::knobs_test {
namespace {

using namespace spec;

TEST(DeepSpeedKnobs, every_key_arrives_under_either_name) {
  const ZeroKnobs plain = read(3, "").knobs;
  EXPECT_TRUE(plain.overlap_comm && plain.contiguous_gradients && plain.reduce_scatter);
  EXPECT_EQ(plain.prefetch_bucket_size, 50'000'000);
  EXPECT_EQ(plain.model_persistence_threshold, INT64_MAX);
  const ZeroKnobs z3 = read(3, "", R"(, "stage3_prefetch_bucket_size": 1, "max_live_parameters": 2,
                      "stage3_max_reuse_distance": 3, "param_persistence_threshold": 4,
                      "stage3_model_persistence_threshold": 5, "sub_group_size": 6,
                      "reduce_bucket_size": 7e0, "memory_efficient_linear": false,
                      "stage3_use_all_reduce_for_fetch_params": true, "overlap_comm": false)")
                           .knobs;
  EXPECT_EQ(z3.prefetch_bucket_size, 1);
  EXPECT_EQ(z3.max_live_parameters, 2);
  EXPECT_EQ(z3.max_reuse_distance, 3);
  EXPECT_EQ(z3.param_persistence_threshold, 4);
  EXPECT_EQ(z3.model_persistence_threshold, 5);
  EXPECT_EQ(z3.sub_group_size, 6);
  EXPECT_EQ(z3.reduce_bucket_size, 7);
  EXPECT_TRUE(z3.use_all_reduce_for_fetch_params);
  EXPECT_FALSE(z3.memory_efficient_linear || z3.overlap_comm);
  const ZeroKnobs z2 = read(2, R"("gradient_clipping": 0)",
                            R"(, "round_robin_gradients": true, "parameter_alignment": true,
              "compute_grad_norm": false, "use_multi_rank_bucket_allreduce": false,
              "overlap_comm": true)")
                           .knobs;
  EXPECT_TRUE(z2.round_robin_gradients && z2.parameter_alignment && z2.overlap_comm);
  EXPECT_FALSE(z2.compute_grad_norm || z2.use_multi_rank_bucket_allreduce);
}

TEST(DeepSpeedKnobs, auto_and_null_are_the_default) {
  const ZeroKnobs k = read(3, "", R"(, "overlap_comm": null, "reduce_bucket_size": "auto",
                                      "stage3_max_live_parameters": "auto", "made_up": "auto")")
                          .knobs;
  EXPECT_TRUE(k.overlap_comm);
  EXPECT_EQ(k.reduce_bucket_size, 500'000'000);
  EXPECT_EQ(k.max_live_parameters, 1'000'000'000);
  EXPECT_FALSE(read(2, "", R"(, "overlap_comm": null)").knobs.overlap_comm);
}

TEST(DeepSpeedKnobs, sequential_gathers_prefetch_one_element) {
  EXPECT_EQ(read(3, "", R"(, "stage3_allgather_sequential": true, "prefetch_bucket_size": 9)")
                .knobs.prefetch_bucket_size,
            1);
}

TEST(DeepSpeedKnobs, gradients_are_scaled_where_deepspeed_scales_them) {
  const char* scaling = R"("gradient_predivide_factor": 2, "gradient_allreduce_op": "MEAN")";
  EXPECT_EQ(read(0, scaling).knobs.gradient_predivide_factor, 2);
  EXPECT_EQ(read(1, scaling).knobs.gradient_predivide_factor, 1) << "its buckets are pre-divided";
  EXPECT_EQ(read(1, scaling, R"(, "reduce_scatter": false)").knobs.gradient_predivide_factor, 2);
  EXPECT_EQ(read(1, std::string(scaling) + ", " + bf16 + accum32).knobs.gradient_predivide_factor,
            2);
  EXPECT_TRUE(read(0, R"("prescale_gradients": true)").knobs.prescale_gradients);
  EXPECT_TRUE(read(2, R"("gradient_allreduce_op": "sum")").knobs.sums_gradients);
  for (const int stage : {2, 3})
    expect_says(refusal(stage, scaling), {"gradient_predivide_factor = 2", "reduce_scatter"});
}

}  // namespace
}  // namespace shardmark::test::knobs_test
