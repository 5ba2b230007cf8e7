// SPDX-License-Identifier: Apache-2.0
// Adam and AdamW. DeepSpeed uses its fused Adam or, with `torch_adam`, that of PyTorch. Each
// accepts its own parameter names only.
#include <algorithm>
#include <optional>
#include <string>

#include <fmt/core.h>

#include <io/deepspeed/sections.hpp>

namespace shardmark {
namespace {

std::string lower_name(const DsValues& optimizer) {
  const Json type = optimizer.at("type");
  auto name = type.is_null() ? std::string() : type.get<std::string>();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return name;
}

// The optimizer of that name in lower case, or nothing if it is not modelled.
std::optional<Optimizer> named(const std::string& name) {
  for (const Optimizer o : all_values<Optimizer>)
    if (name == to_string(o)) return o;
  return {};
}

void check_names(Origin& origin, const DsValues& adam) {
  const bool torch = adam.flag("torch_adam");
  const auto refuse_if_given = [&](std::initializer_list<const char*> names, const char* why) {
    for (const char* name : names)
      if (adam.given(name)) origin.refuse(adam.key(name), adam.at(name), why);
  };
  if (torch)
    refuse_if_given({"bias_correction", "set_grad_none", "fp32_optimizer_states"},
                    "PyTorch's Adam, which torch_adam asks for, has no such parameter: remove it");
  else
    refuse_if_given({"maximize", "fused", "foreach", "capturable", "differentiable"},
                    "DeepSpeed's own Adam has no such parameter: remove it, or set torch_adam");
}

}  // namespace

// DeepSpeed uses an optimizer only if its type is given. An unknown optimizer is refused before its
// parameters are read.
DsValues adam_of(Origin& origin, const DsValues& optimizer) {
  const std::string name = lower_name(optimizer);
  if (optimizer.at("type").is_null()) {
    if (optimizer.given("params"))
      origin.note(
          FindingKind::no_effect, optimizer.key("params"),
          "the optimizer has no type, so DeepSpeed does not use this section: add \"type\": "
          "\"AdamW\"");
    return {optimizer.key("params"), ds_adam()};
  }
  if (!named(name))
    origin.not_modelled(optimizer.key("type"), optimizer.at("type"), "use \"AdamW\" or \"Adam\"");
  if (!optimizer.given("params")) return {optimizer.key("params"), ds_adam()};
  DsValues adam(origin, optimizer.key("params"), optimizer.at("params"), ds_adam());
  check_names(origin, adam);
  return adam;
}

OptimizerSpec optimizer_spec(const DsConfig& c, const Origin& origin) {
  OptimizerSpec spec;
  spec.lr = c.adam.number("lr");
  spec.eps = c.adam.number("eps");
  spec.weight_decay = c.adam.number("weight_decay");
  const Json betas = c.adam.at("betas");
  const auto is_beta = [](const Json& b) {
    return b.is_number() && b.get<double>() >= 0 && b.get<double>() < 1;
  };
  if (betas.size() != 2 || !is_beta(betas[0]) || !is_beta(betas[1]))
    origin.refuse(c.adam.key("betas"), betas, "must be two numbers, at least 0 and below 1");
  spec.beta1 = betas[0].get<double>();
  spec.beta2 = betas[1].get<double>();
  // In DeepSpeed "Adam" means AdamW too, unless adam_w_mode is false.
  const bool adam = named(lower_name(c.optimizer)) == Optimizer::adam;
  spec.type = adam && !c.adam.flag("adam_w_mode") ? Optimizer::adam : Optimizer::adamw;
  spec.bias_correction = c.adam.flag("bias_correction");
  spec.torch = c.adam.flag("torch_adam");
  return spec;
}

}  // namespace shardmark
