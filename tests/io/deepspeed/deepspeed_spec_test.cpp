// SPDX-License-Identifier: Apache-2.0
// Rule: what a DeepSpeed config says about precision, optimizer, scheduler and knobs is read as
// DeepSpeed would use it, and what its engine refuses is refused.
#include <fmt/format.h>

#include <io/deepspeed/config.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::deepspeed_spec_test {
namespace {

// Reads a config with additional keys at a stage. `zero` contains additional keys of
// zero_optimization and begins with a comma.
ZeroSpec read(int stage, const std::string& extra, const std::string& zero = "") {
  Origin origin("d.json");
  const std::string text =
      fmt::format("{{\"train_batch_size\": 4, \"zero_optimization\": {{\"stage\": {}{}}}{}{}}}",
                  stage, zero, extra.empty() ? "" : ", ", extra);
  return read_deepspeed(origin, parse_json(text, "d.json", JsonRules::deck), Schedule::deepspeed);
}

std::string refusal(int stage, const std::string& extra, const std::string& zero = "") {
  return message_of<DeckError>([&] { read(stage, extra, zero); });
}

constexpr const char* bf16 = R"("bf16": {"enabled": true})";
constexpr const char* fp16 = R"("fp16": {"enabled": true})";
constexpr const char* accum32 = R"(, "data_types": {"grad_accum_dtype": "fp32"})";

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

ZeroSpec adam(const char* type, const char* params) {
  return read(1, fmt::format(R"("optimizer": {{"type": "{}", "params": {{{}}}}})", type, params));
}

TEST(DeepSpeedOptimizer, adam_is_adamw_unless_its_mode_says_otherwise) {
  EXPECT_EQ(adam("Adam", "").optimizer.type, Optimizer::adamw);
  EXPECT_EQ(adam("Adam", R"("adam_w_mode": false)").optimizer.type, Optimizer::adam);
  EXPECT_EQ(adam("adam", R"("adam_w_mode": false, "torch_adam": true)").optimizer.type,
            Optimizer::adam);
  EXPECT_EQ(adam("AdamW", R"("adam_w_mode": false)").optimizer.type, Optimizer::adamw);
  EXPECT_EQ(read(1, "").optimizer.type, Optimizer::adamw);
}

TEST(DeepSpeedOptimizer, each_adam_knows_its_own_parameters) {
  EXPECT_FALSE(adam("Adam", R"("bias_correction": false)").optimizer.bias_correction);
  EXPECT_NO_THROW(adam("Adam", R"("torch_adam": true, "foreach": null)"));
  for (const auto& [params, key] :
       {std::pair{R"("torch_adam": true, "bias_correction": false)", "bias_correction"},
        std::pair{R"("foreach": false)", "foreach"}, std::pair{R"("fused": true)", "fused"}})
    expect_says(message_of<DeckError>([&] { adam("AdamW", params); }), {key, "torch_adam"});
}

ZeroSpec optimizer(int stage, const char* type, const char* params, const char* more = "",
                   const char* zero = "") {
  return read(
      stage,
      fmt::format(R"("optimizer": {{"type": "{}", "params": {{{}}}}}{})", type, params, more),
      zero);
}

TEST(DeepSpeedOptimizer, has_the_defaults_of_its_implementation) {
  const OptimizerSpec lion = optimizer(1, "LION", "").optimizer;
  EXPECT_EQ(lion.type, Optimizer::lion);
  EXPECT_EQ(lion.lr, 1e-3);
  EXPECT_EQ(lion.weight_decay, 0);
  const OptimizerSpec sgd = optimizer(0, "SGD", "").optimizer;
  EXPECT_EQ(sgd.type, Optimizer::sgd);
  EXPECT_EQ(sgd.lr, 1e-3);
  EXPECT_EQ(optimizer(0, "SGD", R"("momentum": 0.9)").optimizer.type, Optimizer::momentum_sgd);
  const OptimizerSpec adagrad = optimizer(2, "adagrad", R"("lr_decay": 0.5)").optimizer;
  EXPECT_EQ(adagrad.type, Optimizer::adagrad);
  EXPECT_EQ(adagrad.lr, 1e-2);
  EXPECT_EQ(adagrad.eps, 1e-10);
  EXPECT_EQ(adagrad.lr_decay, 0.5);
}

// Each of these was refused by DeepSpeed 0.19.8 when it was run.
TEST(DeepSpeedOptimizer, is_refused_where_deepspeed_refuses_it) {
  const char* host = R"(, "offload_optimizer": {"device": "cpu"})";
  const char* split = R"(, "offload_optimizer": {"device": "cpu", "ratio": 0.5})";
  const auto refused = [](int stage, const char* type, const char* params, const char* zero,
                          const std::vector<std::string>& says) {
    expect_says(message_of<DeckError>([&] { optimizer(stage, type, params, "", zero); }), says);
  };
  refused(2, "SGD", R"("lr": 0.1)", "", {"optimizer.type", "zero_allow_untested_optimizer"});
  EXPECT_NO_THROW(optimizer(2, "SGD", "", R"(, "zero_allow_untested_optimizer": true)"));
  refused(0, "sgd", "", "", {"optimizer.type = \"sgd\"", "\"SGD\""});
  refused(0, "Lion", R"("eps": 1e-8)", "", {"optimizer.params.eps"});
  refused(0, "Lion", R"("fp32_optimizer_states": true)", "", {"fp32_optimizer_states", "host"});
  refused(3, "Lion", R"("set_grad_none": true)", host, {"set_grad_none", "host"});
  refused(3, "Adagrad", R"("lr_decay": 0.1)", host, {"lr_decay", "host"});
  refused(3, "Lion", "", split, {"optimizer.type", "ratio", "splits only its own Adam"});
  refused(0, "SGD", R"("nesterov": true)", "", {"nesterov = true", "momentum", "dampening"});
  refused(0, "RMSprop", "", "", {"optimizer.type", "Lion", "SGD", "Adagrad", "Muon"});
  EXPECT_EQ(optimizer(3, "Lion", "", "", host).optimizer.type, Optimizer::host_lion);
}

TEST(DeepSpeedOptimizer, muon_has_rates_of_its_own_for_matrices_and_for_the_rest) {
  const OptimizerSpec own = optimizer(2, "Muon", "").optimizer;
  EXPECT_EQ(own.type, Optimizer::muon);
  EXPECT_EQ(own.lr, 0.02);
  EXPECT_EQ(own.adam_lr, 3e-4);
  EXPECT_EQ(own.momentum, 0.95);
  EXPECT_EQ(own.beta2, 0.95);
  EXPECT_EQ(own.eps, 1e-10);
  EXPECT_EQ(own.weight_decay, 0);
  const OptimizerSpec shared =
      optimizer(1, "muon", R"("lr": 0.5, "adam_lr": 0.25, "ns_method": "standard")").optimizer;
  EXPECT_EQ(shared.type, Optimizer::standard_muon);
  EXPECT_EQ(shared.lr, 0.5);
  EXPECT_EQ(shared.adam_lr, 0.25);
  EXPECT_EQ(optimizer(1, "Muon", R"("lr": 0.5, "muon_lr": 0.1)").optimizer.lr, 0.1);
  EXPECT_EQ(optimizer(1, "Muon", R"("lr": 0.5, "muon_lr": 0.1)").optimizer.adam_lr, 0.5);
}

TEST(DeepSpeedOptimizer, muon_is_refused_where_it_is_not_modelled) {
  const auto refused = [](int stage, const char* params, const char* more, const char* zero,
                          const char* key) {
    expect_says(message_of<DeckError>([&] { optimizer(stage, "Muon", params, more, zero); }),
                {key, "not modelled yet"});
  };
  EXPECT_NO_THROW(optimizer(0, "Muon", ""));
  EXPECT_NO_THROW(optimizer(3, "Muon", "", "", R"(, "reduce_scatter": false)"));
  for (const char* section : {"offload_optimizer", "offload_param"})
    for (const char* device : {"cpu", "nvme"}) {
      const std::string off =
          fmt::format(R"(, "reduce_scatter": false, "{}": {{"device": "{}", "nvme_path": "x"}})",
                      section, device);
      EXPECT_NO_THROW(optimizer(3, "Muon", "", "", off.c_str()));
    }
  EXPECT_NO_THROW(optimizer(3, "Muon", "", R"(, "fp16": {"enabled": true})",
                            R"(, "reduce_scatter": false, "zero_quantized_weights": true)"));
  const char* host = R"(, "reduce_scatter": false, "offload_optimizer": {"device": "cpu"})";
  refused(3, "", R"(, "fp16": {"enabled": true})", host, "fp16.enabled = true");
  EXPECT_NO_THROW(optimizer(
      3, "Muon", "", R"(, "fp16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"})",
      host));
  expect_says(message_of<DeckError>([&] { optimizer(3, "Muon", ""); }),
              {"reduce_scatter = true", "DeepSpeed's stage 3 takes Muon only without"});
  for (const char* half : {"bf16", "fp16"}) {
    const std::string more = fmt::format(R"(, "{}": {{"enabled": true}})", half);
    const std::string sums = more + R"(, "data_types": {"grad_accum_dtype": "fp32"})";
    EXPECT_NO_THROW(optimizer(1, "Muon", "", more.c_str()));
    for (const int stage : {1, 2}) {
      EXPECT_NO_THROW(optimizer(stage, "Muon", "", sums.c_str()));
      EXPECT_NO_THROW(optimizer(stage, "Muon", "", sums.c_str(),
                                R"(, "offload_optimizer": {"device": "cpu"})"));
    }
    expect_says(message_of<DeckError>([&] { optimizer(0, "Muon", "", sums.c_str()); }),
                {"grad_accum_dtype = \"fp32\"", "stage 0 accumulates in the model's own type"});
  }
  const char* master = R"(, "bf16": {"enabled": true, "bf16_master_weights_and_grads": true,
                                     "bf16_optimizer_states": true})";
  EXPECT_NO_THROW(optimizer(2, "Muon", "", master));
  expect_says(message_of<DeckError>([&] { optimizer(3, "Muon", "", master, host); }),
              {"bf16_master_weights_and_grads = true", "DeepSpeed needs its own Adam"});
  EXPECT_NO_THROW(
      optimizer(2, "Muon", "", R"(, "torch_autocast": {"enabled": true, "dtype": "bf16"})"));
  for (const int stage : {1, 2})
    EXPECT_NO_THROW(
        optimizer(stage, "Muon", "", "", R"(, "offload_optimizer": {"device": "cpu"})"));
  refused(1, "", R"(, "data_types": {"grad_accum_dtype": "bf16"})", "", "grad_accum_dtype");
  refused(1, R"("per_head_muon": true)", "", "", "per_head_muon = true");
  refused(1, R"("adam_w_mode": false)", "", "", "adam_w_mode = false");
}

TEST(DeepSpeedOptimizer, muon_ignores_what_deepspeed_ignores) {
  EXPECT_NO_THROW(optimizer(1, "Muon", R"("nesterov": false)"));
  expect_says(message_of<DeckError>([&] { optimizer(1, "Muon", R"("ns_method": "cubic")"); }),
              {"ns_method = \"cubic\"", "gram", "standard"});
}

ZeroSpec scheduled(const char* type, const char* params) {
  return read(1, fmt::format(R"("optimizer": {{"type": "AdamW", "params": {{"lr": 0.5}}}},
                                "scheduler": {{"type": "{}", "params": {{{}}}}})",
                             type, params));
}

TEST(DeepSpeedScheduler, parameters_and_defaults_are_each_schedulers_own) {
  EXPECT_EQ(read(1, "").scheduler.type, LrSchedule::constant);
  EXPECT_EQ(read(1, R"("scheduler": {})").scheduler.type, LrSchedule::constant);
  const SchedulerSpec plain = scheduled("WarmupLR", "").scheduler;
  EXPECT_EQ(plain.type, LrSchedule::warmup);
  EXPECT_EQ(plain.warmup_min_lr, 0);
  EXPECT_EQ(plain.warmup_max_lr, 0.5) << "the optimizer's";
  EXPECT_EQ(plain.warmup_num_steps, 1000);
  EXPECT_FALSE(plain.linear);
  EXPECT_EQ(scheduled("WarmupLR", R"("warmup_max_lr": [0.25])").scheduler.warmup_max_lr, 0.25);
  const SchedulerSpec decay =
      scheduled("WarmupDecayLR", R"("total_num_steps": 50, "warmup_type": "linear")").scheduler;
  EXPECT_EQ(decay.type, LrSchedule::warmup_decay);
  EXPECT_EQ(decay.warmup_max_lr, 1e-3) << "not the optimizer's";
  EXPECT_EQ(decay.total_num_steps, 50);
  EXPECT_TRUE(decay.linear);
  const SchedulerSpec cosine =
      scheduled("WarmupCosineLR",
                R"("total_num_steps": 50, "warmup_min_ratio": 0.5, "cos_min_ratio": 0.25,
                   "warmup_num_steps": 3)")
          .scheduler;
  EXPECT_EQ(cosine.type, LrSchedule::warmup_cosine);
  EXPECT_EQ(cosine.warmup_min_ratio, 0.5);
  EXPECT_EQ(cosine.cos_min_ratio, 0.25);
  EXPECT_EQ(cosine.warmup_num_steps, 3);
}

// Matrices and the rest are two parameter groups, for which a list has a rate each.
TEST(DeepSpeedScheduler, muon_has_rates_for_both_of_its_groups) {
  const auto rates = [](const char* type, const char* params) {
    const SchedulerSpec s = read(1, fmt::format(R"("optimizer": {{"type": "Muon"}},
                               "scheduler": {{"type": "{}", "params": {{{}}}}})",
                                                type, params))
                                .scheduler;
    return std::vector{s.warmup_min_lr, s.adam_min_lr, s.warmup_max_lr, s.adam_max_lr};
  };
  using Rates = std::vector<double>;
  EXPECT_EQ(rates("WarmupLR", ""), (Rates{0, 0, 0.02, 3e-4})) << "the optimizer's";
  EXPECT_EQ(rates("WarmupLR", R"("warmup_min_lr": 0.25, "warmup_max_lr": [1, 2])"),
            (Rates{0.25, 0.25, 1, 2}));
  EXPECT_EQ(rates("WarmupDecayLR", R"("total_num_steps": 9)"), (Rates{0, 0, 1e-3, 1e-3}));
  for (const char* list : {"[0.25]", "[1, 2, 3]"}) {
    const std::string params = fmt::format(R"("warmup_max_lr": {})", list);
    expect_says(message_of<DeckError>([&] { rates("WarmupLR", params.c_str()); }),
                {"warmup_max_lr", "not modelled yet", "a list of two"});
  }
  expect_says(message_of<DeckError>([&] { rates("WarmupLR", R"("warmup_max_lr": [1, "auto"])"); }),
              {"warmup_max_lr", "must be a number"});
}

TEST(DeepSpeedScheduler, what_its_constructor_refuses_is_refused) {
  const struct {
    const char *type, *params, *says;
  } cases[] = {
      {"WarmupLR", R"("warmup_steps": 5)", "unknown key"},
      {"WarmupLR", R"("total_num_steps": 5)", "unknown key"},
      {"WarmupLR", R"("warmup_num_steps": 0)", "at least 1"},
      {"WarmupLR", R"("warmup_num_steps": 10.0)", "without a fraction"},
      {"WarmupLR", R"("warmup_num_steps": "auto")", "must be an integer"},
      {"WarmupLR", R"("warmup_max_lr": "auto")", "must be a number"},
      {"WarmupLR", R"("warmup_min_lr": null)", "must be a number"},
      {"WarmupLR", R"("warmup_max_lr": [0.1, 0.2])", "not modelled yet"},
      {"WarmupLR", R"("last_batch_iteration": 5)", "not modelled yet"},
      {"WarmupDecayLR", "", "total_num_steps: missing"},
      {"WarmupDecayLR", R"("total_num_steps": "auto")", "number of steps"},
      {"WarmupCosineLR", R"("total_num_steps": 5, "warmup_min_lr": 0)", "unknown key"},
      {"WarmupCosineLR", "", "total_num_steps: missing"},
      {"LRRangeTest", "", "not modelled yet"},
      {"StepLR", "", "not modelled yet"},
      {"warmuplr", "", "knows no scheduler"},
  };
  for (const auto& c : cases)
    expect_says(message_of<DeckError>([&] { scheduled(c.type, c.params); }), {c.says});
  expect_says(refusal(1, R"("scheduler": {"type": "WarmupLR"})"), {"scheduler.params: missing"});
}

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
}  // namespace shardmark::test::deepspeed_spec_test
