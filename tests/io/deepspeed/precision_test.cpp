// SPDX-License-Identifier: Apache-2.0
// Rule: what a DeepSpeed config says about precision is read as DeepSpeed would use
// it, and what its engine refuses is refused.
#include <tests/io/deepspeed/spec.hpp>

namespace shardmark::test::precision_test {
namespace {

using namespace spec;

TEST(DeepSpeedPrecision, types_follow_the_model_unless_they_are_given) {
  EXPECT_EQ(read(2, "").precision.model, Dtype::fp32);
  const PrecisionSpec half = read(2, bf16).precision;
  EXPECT_EQ(half.model, Dtype::bf16);
  EXPECT_EQ(half.grad_accum, Dtype::bf16);
  EXPECT_EQ(half.comm, Dtype::bf16);
  const PrecisionSpec mixed =
      read(2, std::string(fp16) + accum32 + R"(, "communication_data_type": "FP32")").precision;
  EXPECT_EQ(mixed.model, Dtype::fp16);
  EXPECT_EQ(mixed.grad_accum, Dtype::fp32);
  EXPECT_EQ(mixed.comm, Dtype::fp32);
  EXPECT_EQ(read(1, R"("communication_data_type": "bf16")").precision.comm, Dtype::bf16);
}

// The engine sends the gradients of stage 0, whatever autocast says.
TEST(DeepSpeedPrecision, autocast_names_a_type_and_the_classes_that_are_sent_in_it) {
  const std::string bf16_sent = R"(, "communication_data_type": "bf16")";
  const std::string cast = R"("torch_autocast": {"enabled": true, "dtype": "torch.bfloat16"})";
  for (int stage : {0, 1, 2, 3}) {
    const PrecisionSpec p = read(stage, cast + bf16_sent).precision;
    EXPECT_EQ(p.model, Dtype::fp32);
    EXPECT_EQ(p.comm, stage == 0 ? Dtype::bf16 : Dtype::fp32);
    EXPECT_EQ(p.autocast.dtype, Dtype::bf16);
    EXPECT_EQ(p.autocast.safe_classes.front(), "torch.nn.Linear");
    EXPECT_EQ(p.autocast.safe_classes.size(), 4U);
  }
  const std::string own = R"("torch_autocast": {"enabled": 1, "dtype": "bf16",
                              "lower_precision_safe_modules": ["a.B"]})";
  EXPECT_EQ(read(2, own).precision.autocast.safe_classes, std::vector<std::string>{"a.B"});
  const std::string off = R"("torch_autocast": {"enabled": false, "dtype": "fp16"})";
  EXPECT_EQ(read(2, off).precision.autocast.dtype, std::nullopt);
}

TEST(DeepSpeedPrecision, what_is_not_modelled_beside_autocast_is_named) {
  const std::string cast = R"("torch_autocast": {"enabled": true, "dtype": "bf16"})";
  EXPECT_NO_THROW(read(3, cast));
  expect_says(refusal(2, cast + ", " + bf16), {"bf16.enabled", "torch_autocast", "remove"});
  expect_says(refusal(2, cast + ", " + fp16), {"fp16.enabled", "torch_autocast", "remove"});
  const struct {
    int stage;
    const char *zero, *key;
  } cases[] = {
      {3, R"("offload_optimizer": {"device": "nvme", "nvme_path": "x"})", "offload_optimizer"},
      {3, R"("offload_param": {"device": "nvme", "nvme_path": "x"})", "offload_param"},
      {3, R"("zero_quantized_gradients": true)", "zero_quantized_gradients"},
      {3, R"("zero_quantized_weights": true)", "zero_quantized_weights"},
      {1, R"("zero_quantized_weights": true)", "zero_quantized_weights"},
  };
  for (const auto& c : cases)
    expect_says(refusal(c.stage, cast, std::string(", ") + c.zero),
                {c.key, "torch_autocast", "remove one"});
  const std::string text = "{\"train_batch_size\": 4, " + cast + "}";
  for (const Schedule schedule : {Schedule::paper, Schedule::torch})
    expect_says(message_of<DeckError>([&] {
                  Origin origin("d.json");
                  read_deepspeed(origin, parse_json(text, "d.json", JsonRules::deck), schedule);
                }),
                {"torch_autocast.enabled", "run.schedule"});
}

TEST(DeepSpeedPrecision, stage_0_accumulates_in_the_models_type) {
  expect_says(refusal(0, std::string(bf16) + accum32), {"grad_accum_dtype", "fp32", "stage 0"});
  for (const int stage : {1, 2, 3}) EXPECT_NO_THROW(read(stage, std::string(bf16) + accum32));
  EXPECT_NO_THROW(read(0, R"("data_types": {"grad_accum_dtype": "float"})"));
  expect_says(
      refusal(2, R"("fp16": {"enabled": true}, "data_types": {"grad_accum_dtype": "bf16"})"),
      {"grad_accum_dtype", "not modelled yet"});
}

TEST(DeepSpeedPrecision, param_dtype_must_be_the_type_that_is_enabled) {
  EXPECT_NO_THROW(read(1, std::string(bf16) + R"(, "data_types": {"param_dtype": "bfloat16"})"));
  expect_says(refusal(1, std::string(bf16) + R"(, "data_types": {"param_dtype": "fp16"})"),
              {"param_dtype", "bf16"});
}

TEST(DeepSpeedPrecision, overflow_is_checked_for_fp16_and_at_stages_1_and_2_for_bf16) {
  const std::string off = R"("bf16": {"enabled": true, "check_grad_overflow": false})";
  for (int stage = 0; stage <= 3; ++stage) {
    const bool flat = stage == 1 || stage == 2;
    EXPECT_TRUE(read(stage, fp16).precision.check_overflow);
    EXPECT_EQ(read(stage, bf16).precision.check_overflow, flat) << "stage " << stage;
    EXPECT_FALSE(read(stage, off).precision.check_overflow);
    EXPECT_FALSE(read(stage, "").precision.check_overflow);
  }
  EXPECT_FALSE(read(1, std::string(bf16) + accum32).precision.check_overflow)
      << "another optimizer wraps it";
  EXPECT_TRUE(read(2, std::string(bf16) + accum32).precision.check_overflow);
}

TEST(DeepSpeedPrecision, a_loss_scale_of_0_is_dynamic) {
  const LossScaleSpec plain = read(2, fp16).precision.loss_scale;
  EXPECT_TRUE(plain.dynamic);
  EXPECT_EQ(plain.initial, 65536);
  EXPECT_EQ(plain.window, 1000);
  EXPECT_EQ(plain.hysteresis, 2);
  EXPECT_EQ(plain.min_scale, 1);
  const LossScaleSpec all =
      read(2, R"("fp16": {"enabled": true, "initial_scale_power": 8, "loss_scale_window": 10,
                 "hysteresis": 3, "consecutive_hysteresis": true, "min_loss_scale": 4})")
          .precision.loss_scale;
  EXPECT_EQ(all.initial, 256);
  EXPECT_EQ(all.window, 10);
  EXPECT_EQ(all.hysteresis, 3);
  EXPECT_TRUE(all.consecutive_hysteresis);
  EXPECT_EQ(all.min_scale, 4);
  const LossScaleSpec fixed =
      read(2, R"("fp16": {"enabled": true, "loss_scale": "128"})").precision.loss_scale;
  EXPECT_FALSE(fixed.dynamic);
  EXPECT_EQ(fixed.initial, 128);
  EXPECT_EQ(read(2, bf16).precision.loss_scale.initial, 1);
}

TEST(DeepSpeedPrecision, dynamic_scaling_is_checked_only_where_there_is_one) {
  const auto with = [](const char* keys) { return fmt::format(R"("fp16": {{{}}})", keys); };
  expect_says(refusal(2, with(R"("enabled": true, "loss_scale_window": 0)")), {"window = 0"});
  expect_says(refusal(2, with(R"("enabled": true, "min_loss_scale": 0)")), {"min_loss_scale = 0"});
  expect_says(refusal(2, with(R"("enabled": true, "loss_scale": true)")), {"loss_scale = true"});
  expect_says(refusal(2, with(R"("loss_scale_window": true)")), {"window = true"});
  expect_says(refusal(2, with(R"("enabled": true, "initial_scale_power": 2000)")), {"1023"});
  EXPECT_NO_THROW(read(2, with(R"("enabled": true, "loss_scale": 8, "min_loss_scale": 0)")));
  EXPECT_NO_THROW(read(2, with(R"("loss_scale_window": 0)")));
}

}  // namespace
}  // namespace shardmark::test::precision_test
