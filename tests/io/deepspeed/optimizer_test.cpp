// SPDX-License-Identifier: Apache-2.0
// Rule: what a DeepSpeed config says about the optimizer is read as DeepSpeed would use
// it, and what its engine refuses is refused.
#include <tests/io/deepspeed/spec.hpp>

namespace shardmark::test::optimizer_test {
namespace {

using namespace spec;

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

}  // namespace
}  // namespace shardmark::test::optimizer_test
