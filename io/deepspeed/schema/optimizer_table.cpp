// SPDX-License-Identifier: Apache-2.0
// The section `optimizer` of a DeepSpeed config, and the parameters of each optimizer. DeepSpeed
// gives them to the optimizer by name, so an unknown name is an error. A table has the names of all
// implementations between which DeepSpeed chooses. Checked against DeepSpeed 0.19.8 and torch 2.15.
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {
namespace {

using enum KeyType;

constexpr Key optimizer[] = {
    Key("type", text, "null").used(),
    Key("params", object, "{}").used(),
    Key("legacy_fusion", truth, "false"),
};

constexpr Key adam[] = {
    Key("lr", number, "0.001").at_least(0).filled_by("hf.learning_rate").used(),
    Key("betas", array, "[0.9,0.999]").filled_by("hf.adam_beta1 and hf.adam_beta2").used(),
    Key("eps", number, "1e-08").at_least(0).filled_by("hf.adam_epsilon").used(),
    Key("weight_decay", number, "0.01").at_least(0).filled_by("hf.weight_decay").used(),
    Key("adam_w_mode", truth, "true").used(),
    Key("bias_correction", truth, "true").used(),
    Key("amsgrad", truth, "false").refused(),
    Key("maximize", truth, "false").refused(),
    Key("torch_adam", truth, "false"),
    Key("fp32_optimizer_states", boolean, "true").refused(),
    Key("set_grad_none", boolean, "true"),
    Key("fused", boolean_or_null, "null"),
    Key("foreach", boolean_or_null, "null"),
    Key("capturable", boolean, "false"),
    Key("differentiable", boolean, "false"),
    removed("max_grad_norm", "set gradient_clipping"),
};

constexpr Key lion[] = {
    Key("lr", number, "0.001").at_least(0).filled_by("hf.learning_rate").used(),
    Key("betas", array, "[0.9,0.999]").filled_by("hf.adam_beta1 and hf.adam_beta2").used(),
    Key("weight_decay", number, "0").at_least(0).filled_by("hf.weight_decay").used(),
    Key("set_grad_none", boolean, "true"),
    Key("fp32_optimizer_states", boolean, "true").refused(),
    removed("max_grad_norm", "set gradient_clipping"),
};

constexpr Key sgd[] = {
    Key("lr", number, "0.001").at_least(0).filled_by("hf.learning_rate").used(),
    Key("momentum", number, "0").at_least(0).used(),
    Key("dampening", number, "0").used(),
    Key("weight_decay", number, "0").at_least(0).filled_by("hf.weight_decay").used(),
    Key("nesterov", truth, "false").used(),
    Key("maximize", truth, "false").refused(),
    Key("foreach", boolean_or_null, "null"),
    Key("differentiable", boolean, "false"),
    Key("fused", boolean_or_null, "null"),
    removed("max_grad_norm", "set gradient_clipping"),
};

constexpr Key adagrad[] = {
    Key("lr", number, "0.01").at_least(0).filled_by("hf.learning_rate").used(),
    Key("lr_decay", number, "0").at_least(0).used(),
    Key("weight_decay", number, "0").at_least(0).filled_by("hf.weight_decay").used(),
    Key("initial_accumulator_value", number, "0").at_least(0).used(),
    Key("eps", number, "1e-10").at_least(0).filled_by("hf.adam_epsilon").used(),
    Key("maximize", truth, "false").refused(),
    Key("foreach", boolean_or_null, "null"),
    Key("differentiable", boolean, "false"),
    Key("fused", boolean_or_null, "null"),
    Key("amsgrad", truth, "false").dead(),
    Key("fp32_optimizer_states", boolean, "true").refused(),
    removed("max_grad_norm", "set gradient_clipping"),
};

// DeepSpeed takes what it knows of the names for the two halves of the parameters, and ignores the
// rest.
constexpr Key muon[] = {
    Key("lr", number, "0.02").at_least(0).filled_by("hf.learning_rate").used(),
    Key("muon_lr", number, "0.02").at_least(0).used(),
    Key("adam_lr", number, "0.0003").at_least(0).used(),
    Key("momentum", number, "0.95").within({0, 1}).used(),
    Key("ns_method", word, "\"gram\"").one_of("gram|standard").used(),
    Key("weight_decay", number, "0").at_least(0).filled_by("hf.weight_decay").used(),
    Key("betas", array, "[0.9,0.95]").filled_by("hf.adam_beta1 and hf.adam_beta2").used(),
    Key("eps", number, "1e-10").at_least(0).filled_by("hf.adam_epsilon").used(),
    Key("adam_w_mode", truth, "true").refused(),
    Key("per_head_muon", truth, "false").refused(),
    Key("torch_adam", truth, "false"),
    Key("foreach", boolean_or_null, "null"),
    Key("fp32_optimizer_states", boolean, "true"),
    removed("max_grad_norm", "set gradient_clipping"),
};

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
