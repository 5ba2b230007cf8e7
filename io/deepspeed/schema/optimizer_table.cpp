// SPDX-License-Identifier: Apache-2.0
// The section `optimizer` of a DeepSpeed config, and the parameters of each optimizer. DeepSpeed
// gives them to the optimizer by name, so an unknown name is an error. A table has the names of all
// implementations between which DeepSpeed chooses. Checked against DeepSpeed 0.19.8 and torch 2.15.
#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {
namespace {

using enum DsType;
using enum DsEffect;

constexpr DsKey optimizer[] = {
    {"type", "", text, "null", used, all_stages, any_real, ""},
    {"params", "", object, "{}", used, all_stages, any_real, ""},
    {"legacy_fusion", "", truth, "false", inert, all_stages, any_real, ""},
};

constexpr DsKey adam[] = {
    {"lr", "", number, "0.001", used, all_stages, not_negative, ""},
    {"betas", "", array, "[0.9,0.999]", used, all_stages, any_real, ""},
    {"eps", "", number, "1e-08", used, all_stages, not_negative, ""},
    {"weight_decay", "", number, "0.01", used, all_stages, not_negative, ""},
    {"adam_w_mode", "", truth, "true", used, all_stages, any_real, ""},
    {"bias_correction", "", truth, "true", used, all_stages, any_real, ""},
    {"amsgrad", "", truth, "false", not_modelled, all_stages, any_real, ""},
    {"maximize", "", truth, "false", not_modelled, all_stages, any_real, ""},
    {"torch_adam", "", truth, "false", inert, all_stages, any_real, ""},
    {"fp32_optimizer_states", "", boolean, "true", not_modelled, all_stages, any_real, ""},
    {"set_grad_none", "", boolean, "true", inert, all_stages, any_real, ""},
    {"fused", "", boolean_or_null, "null", inert, all_stages, any_real, ""},
    {"foreach", "", boolean_or_null, "null", inert, all_stages, any_real, ""},
    {"capturable", "", boolean, "false", inert, all_stages, any_real, ""},
    {"differentiable", "", boolean, "false", inert, all_stages, any_real, ""},
    {"max_grad_norm", "", any, "null", removed, all_stages, any_real, "set gradient_clipping"},
};

constexpr DsKey lion[] = {
    {"lr", "", number, "0.001", used, all_stages, not_negative, ""},
    {"betas", "", array, "[0.9,0.999]", used, all_stages, any_real, ""},
    {"weight_decay", "", number, "0", used, all_stages, not_negative, ""},
    {"set_grad_none", "", boolean, "true", inert, all_stages, any_real, ""},
    {"fp32_optimizer_states", "", boolean, "true", not_modelled, all_stages, any_real, ""},
    {"max_grad_norm", "", any, "null", removed, all_stages, any_real, "set gradient_clipping"},
};

constexpr DsKey sgd[] = {
    {"lr", "", number, "0.001", used, all_stages, not_negative, ""},
    {"momentum", "", number, "0", used, all_stages, not_negative, ""},
    {"dampening", "", number, "0", used, all_stages, any_real, ""},
    {"weight_decay", "", number, "0", used, all_stages, not_negative, ""},
    {"nesterov", "", truth, "false", used, all_stages, any_real, ""},
    {"maximize", "", truth, "false", not_modelled, all_stages, any_real, ""},
    {"foreach", "", boolean_or_null, "null", inert, all_stages, any_real, ""},
    {"differentiable", "", boolean, "false", inert, all_stages, any_real, ""},
    {"fused", "", boolean_or_null, "null", inert, all_stages, any_real, ""},
    {"max_grad_norm", "", any, "null", removed, all_stages, any_real, "set gradient_clipping"},
};

constexpr DsKey adagrad[] = {
    {"lr", "", number, "0.01", used, all_stages, not_negative, ""},
    {"lr_decay", "", number, "0", used, all_stages, not_negative, ""},
    {"weight_decay", "", number, "0", used, all_stages, not_negative, ""},
    {"initial_accumulator_value", "", number, "0", used, all_stages, not_negative, ""},
    {"eps", "", number, "1e-10", used, all_stages, not_negative, ""},
    {"maximize", "", truth, "false", not_modelled, all_stages, any_real, ""},
    {"foreach", "", boolean_or_null, "null", inert, all_stages, any_real, ""},
    {"differentiable", "", boolean, "false", inert, all_stages, any_real, ""},
    {"fused", "", boolean_or_null, "null", inert, all_stages, any_real, ""},
    {"amsgrad", "", truth, "false", dead, all_stages, any_real, ""},
    {"fp32_optimizer_states", "", boolean, "true", not_modelled, all_stages, any_real, ""},
    {"max_grad_norm", "", any, "null", removed, all_stages, any_real, "set gradient_clipping"},
};

// DeepSpeed takes what it knows of the names for the two halves of the parameters, and ignores the
// rest.
constexpr DsKey muon[] = {
    {"lr", "", number, "0.02", used, all_stages, not_negative, ""},
    {"muon_lr", "", number, "0.02", used, all_stages, not_negative, ""},
    {"adam_lr", "", number, "0.0003", used, all_stages, not_negative, ""},
    {"momentum", "", number, "0.95", used, all_stages, {0, 1}, ""},
    {"ns_method", "", word, "\"gram\"", used, all_stages, any_real, "gram|standard"},
    {"weight_decay", "", number, "0", used, all_stages, not_negative, ""},
    {"betas", "", array, "[0.9,0.95]", used, all_stages, any_real, ""},
    {"eps", "", number, "1e-10", used, all_stages, not_negative, ""},
    {"adam_w_mode", "", truth, "true", not_modelled, all_stages, any_real, ""},
    {"per_head_muon", "", truth, "false", not_modelled, all_stages, any_real, ""},
    {"torch_adam", "", truth, "false", inert, all_stages, any_real, ""},
    {"foreach", "", boolean_or_null, "null", inert, all_stages, any_real, ""},
    {"fp32_optimizer_states", "", boolean, "true", inert, all_stages, any_real, ""},
    {"max_grad_norm", "", any, "null", removed, all_stages, any_real, "set gradient_clipping"},
};

}  // namespace

DsSection ds_optimizer() {
  return {optimizer, false, false};
}
DsSection ds_adam() {
  return {adam, false, true};
}
DsSection ds_lion() {
  return {lion, false, true};
}
DsSection ds_sgd() {
  return {sgd, false, true};
}
DsSection ds_adagrad() {
  return {adagrad, false, true};
}
DsSection ds_muon() {
  return {muon, false, false};
}

}  // namespace shardmark
