// SPDX-License-Identifier: Apache-2.0
// The section `optimizer` of a DeepSpeed config, and the parameters of each optimizer. DeepSpeed
// gives them to the optimizer by name, so an unknown name is an error. A table has the names of all
// implementations between which DeepSpeed chooses. Checked against DeepSpeed 0.19.8 and torch 2.15.
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {
namespace {

using enum KeyType;
using O = OptimizerSpec;

constexpr Key optimizer[] = {
    Key("type", text, "null", "the name of the optimizer").used(),
    Key("params", object, "{}").used(),
    Key("legacy_fusion", truth, "false"),
};

// clang-format off
constexpr Key lr_key = Key("lr", in<&O::lr>, "the learning rate")
    .at_least(0).filled_by("hf.learning_rate").used();
constexpr Key weight_decay_key = Key("weight_decay", in<&O::weight_decay>, "the decay of parameters")
    .or_else("0").at_least(0).filled_by("hf.weight_decay").used();
constexpr Key eps_key = Key("eps", in<&O::eps>, "what is added to a denominator")
    .at_least(0).filled_by("hf.adam_epsilon").used();
constexpr Key betas_key = Key("betas", array, "[0.9,0.999]", "the decay of the averages of gradients")
    .filled_by("hf.adam_beta1 and hf.adam_beta2").used();
constexpr Key momentum_key = Key("momentum", in<&O::momentum>, "the decay of the sum of gradients")
    .at_least(0).used();
constexpr Key fp32_states_key = Key("fp32_optimizer_states", boolean, "true");
constexpr Key maximize_key = Key("maximize", truth, "false").refused();
constexpr Key foreach_key("foreach", boolean_or_null, "null"), fused_key("fused", boolean_or_null, "null");
constexpr Key differentiable_key("differentiable", boolean, "false");
constexpr Key set_grad_none_key("set_grad_none", boolean, "true");
constexpr Key torch_adam_key("torch_adam", truth, "false");
constexpr Key max_grad_norm_key = removed("max_grad_norm", "set gradient_clipping");

constexpr Key adam[] = {
    lr_key, betas_key, eps_key, weight_decay_key.or_else("0.01"),
    Key("adam_w_mode", truth, "true", "the decay does not pass through the averages").used(),
    Key("bias_correction", in<&O::bias_correction>, "the first steps divide by 1 - beta^step")
        .of_type(truth).used(),
    Key("amsgrad", truth, "false").refused(),
    maximize_key, torch_adam_key, fp32_states_key.refused(), set_grad_none_key, fused_key, foreach_key,
    Key("capturable", boolean, "false"),
    differentiable_key, max_grad_norm_key,
};

constexpr Key lion[] = {lr_key, betas_key, weight_decay_key, set_grad_none_key, fp32_states_key.refused(),
                        max_grad_norm_key};

constexpr Key sgd[] = {
    lr_key, momentum_key.or_else("0"),
    Key("dampening", in<&O::dampening>, "how much less a gradient adds to the momentum")
        .or_else("0").used(),
    weight_decay_key,
    Key("nesterov", in<&O::nesterov>, "Nesterov's momentum").of_type(truth).used(),
    maximize_key, foreach_key, differentiable_key, fused_key, max_grad_norm_key,
};

constexpr Key adagrad[] = {
    lr_key.or_else("0.01"),
    Key("lr_decay", in<&O::lr_decay>, "by how much the rate falls with the steps")
        .or_else("0").at_least(0).used(),
    weight_decay_key,
    Key("initial_accumulator_value", in<&O::first_accumulator>, "the first sum of squares")
        .or_else("0").at_least(0).used(),
    eps_key.or_else("1e-10"), maximize_key, foreach_key, differentiable_key, fused_key,
    Key("amsgrad", truth, "false").dead(),
    fp32_states_key.refused(), max_grad_norm_key,
};

// DeepSpeed takes what it knows of the names for the two halves of the parameters, and ignores the
// rest.
constexpr Key muon[] = {
    lr_key.or_else("0.02"),
    Key("muon_lr", number, "0.02", "the learning rate of matrices").at_least(0).used(),
    Key("adam_lr", number, "0.0003", "the learning rate of the other parameters").at_least(0)
        .used(),
    momentum_key.or_else("0.95").within({0, 1}),
    Key("ns_method", word, "\"gram\"", "the form of the Newton-Schulz iteration")
        .one_of("gram|standard").used(),
    weight_decay_key, betas_key.or_else("[0.9,0.95]"), eps_key.or_else("1e-10"),
    Key("adam_w_mode", truth, "true").refused(),
    Key("per_head_muon", truth, "false").refused(),
    torch_adam_key, foreach_key, fp32_states_key, max_grad_norm_key,
};
// clang-format on

}  // namespace

std::span<const Section> optimizer_sections() {
  static constexpr Section sections[] = {
      {"optimizer", optimizer, Reading::dictionary},
      {"optimizer.params", adam, Reading::arguments, {}, {}, {}, "adamw"},
      {"optimizer.params", lion, Reading::arguments, {}, {}, {}, "lion"},
      {"optimizer.params", sgd, Reading::arguments, {}, {}, {}, "sgd"},
      {"optimizer.params", adagrad, Reading::arguments, {}, {}, {}, "adagrad"},
      {"optimizer.params", muon, Reading::dictionary, {}, {}, {}, "muon"},
  };
  return sections;
}

}  // namespace shardmark
