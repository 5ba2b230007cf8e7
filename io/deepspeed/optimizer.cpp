// SPDX-License-Identifier: Apache-2.0
// The optimizers that DeepSpeed makes by name. Its own Adam and Lion, and Adagrad on the host, are
// DeepSpeed's; the others, and Adam with `torch_adam`, are PyTorch's. Each implementation accepts
// its own parameter names only.
#include <algorithm>
#include <array>
#include <initializer_list>
#include <optional>
#include <string>

#include <fmt/core.h>

#include <core/text.hpp>
#include <io/deepspeed/sections.hpp>

namespace shardmark {
namespace {

std::string type_of(const DsValues& optimizer) {
  const Json type = optimizer.at("type");
  return type.is_null() ? std::string() : type.get<std::string>();
}

// The kernel of the optimizer of that name, or nothing if it is not modelled. Without a name the
// trainer's own AdamW stands in.
std::optional<Kernel> kernel_named(const std::string& type) {
  if (type.empty()) return Kernel::adamw;
  for (const Optimizer o : all_values<Optimizer>)
    if (lower_case(type) == lower_case(to_string(o))) return traits(o).kernel;
  return {};
}

Kernel kernel_of(const DsConfig& c) {
  return kernel_named(type_of(c.optimizer)).value_or(Kernel::none);
}

const Section& section_of(Kernel kernel) {
  return ds_section("optimizer.params", to_string(kernel));
}

// Names that DeepSpeed 0.19.8 knows besides those of ShardMark: its own, in any case, and those of
// torch.optim (torch 2.15).
constexpr std::array other_optimizers{"Lamb", "MuAdam", "MuAdamW", "MuSGD"};
constexpr std::array torch_optimizers{"ASGD",  "Adadelta", "Adafactor", "Adamax", "LBFGS",
                                      "NAdam", "RAdam",    "RMSprop",   "Rprop",  "SparseAdam"};
constexpr std::array removed_optimizers{"OneBitAdam", "OneBitLamb", "ZeroOneAdam"};

template<class Names>
bool lists(const Names& names, const std::string& type) {
  return std::ranges::find(names, lower_case(type), lower_case) != names.end();
}

void refuse_unknown_type(const Origin& origin, const DsValues& optimizer) {
  const std::string type = type_of(optimizer), key = optimizer.key("type");
  const std::string use = "use \"AdamW\", \"Adam\", \"Lion\", \"SGD\", \"Adagrad\" or \"Muon\"";
  // DeepSpeed looks names other than those of its own optimizers up in torch.optim.
  if (kernel_named(type) == Kernel::sgd && type != to_string(Optimizer::sgd))
    origin.refuse(key, type,
                  "DeepSpeed looks it up in torch.optim, by its exact name: use \"SGD\"");
  if (kernel_named(type)) return;
  if (lists(removed_optimizers, type))
    origin.refuse(key, type, "DeepSpeed 0.19.8 has removed this optimizer: " + use);
  if (lists(other_optimizers, type) || lists(torch_optimizers, type))
    origin.not_modelled(key, type, use);
  origin.refuse(key, type,
                "neither DeepSpeed 0.19.8 nor torch.optim has such an optimizer: " + use);
}

void refuse_given(const DsValues& params, const Origin& origin,
                  std::initializer_list<const char*> names, const char* why) {
  for (const char* name : names)
    if (params.given(name)) origin.refuse(params.key(name), params.at(name), why);
}

void check_names(const DsConfig& c, const Origin& origin) {
  const DsValues& params = c.optimizer_params;
  const Kernel kernel = kernel_of(c);
  const bool on_host = offloads_optimizer(c);
  if (kernel == Kernel::adamw && params.flag("torch_adam"))
    refuse_given(params, origin, {"bias_correction", "set_grad_none", "fp32_optimizer_states"},
                 "PyTorch's Adam, which torch_adam asks for, has no such parameter: remove it");
  else if (kernel == Kernel::adamw)
    refuse_given(params, origin, {"maximize", "fused", "foreach", "capturable", "differentiable"},
                 "DeepSpeed's own Adam has no such parameter: remove it, or set torch_adam");
  if (kernel == Kernel::lion && on_host)
    refuse_given(params, origin, {"set_grad_none"},
                 "DeepSpeed's Lion for the host has no such parameter: remove it");
  else if (kernel == Kernel::lion)
    refuse_given(params, origin, {"fp32_optimizer_states"},
                 "only DeepSpeed's Lion for the host has this parameter: remove it");
  if (kernel == Kernel::adagrad && on_host)
    refuse_given(
        params, origin,
        {"lr_decay", "initial_accumulator_value", "maximize", "foreach", "differentiable", "fused"},
        "DeepSpeed's Adagrad for the host has no such parameter: remove it");
  else if (kernel == Kernel::adagrad)
    refuse_given(params, origin, {"amsgrad", "fp32_optimizer_states"},
                 "only DeepSpeed's Adagrad for the host has this parameter: remove it");
}

// ZeRO splits states between host and device for its own Adam only.
void check_ratio(const DsConfig& c, const Origin& origin) {
  if (c.stage != 3 || !offloads_optimizer(c) || c.offload_optimizer.number("ratio") >= 1) return;
  const bool adam = kernel_of(c) == Kernel::adamw;
  if (adam && !c.optimizer_params.flag("torch_adam")) return;
  const std::string why = fmt::format(
      "{} is {}, and DeepSpeed splits only its own Adam between host and device: remove one of the "
      "two",
      c.offload_optimizer.key("ratio"), brief(c.offload_optimizer.at("ratio")));
  if (adam) origin.refuse(c.optimizer_params.key("torch_adam"), true, why);
  origin.refuse(c.optimizer.key("type"), c.optimizer.at("type"), why);
}

// What DeepSpeed's Muon needs at stage 3, and what is modelled of it there.
template<class Needs>
void check_sharded_muon(const DsConfig& c, const Origin& origin, const Needs& needs) {
  const std::string type = c.optimizer.key("type");
  if (c.zero.flag("reduce_scatter"))
    origin.refuse(c.zero.key("reduce_scatter"), true,
                  fmt::format("{} is \"Muon\", and DeepSpeed's stage 3 takes Muon only without "
                              "reduce-scatter: set it to false, or use another optimizer",
                              type));
  const bool narrow = c.data_types.at("grad_accum_dtype") != "fp32";
  if (offloads_optimizer(c) && c.fp16.flag("enabled") && narrow)
    needs(
        c.fp16.key("enabled"), true,
        fmt::format("with the optimizer on the host DeepSpeed multiplies updates by the loss scale "
                    "in fp16, where they overflow: use bf16, or set {} to \"fp32\"",
                    c.data_types.key("grad_accum_dtype")));
}

// Muon is modelled as DeepSpeed has it.
void check_muon(const DsConfig& c, const Origin& origin, Schedule schedule) {
  const std::string type = c.optimizer.key("type");
  const auto needs = [&](const std::string& key, const Json& value, const std::string& remedy) {
    origin.not_modelled(key, value,
                        fmt::format("{} is \"Muon\": {}, or use another optimizer", type, remedy));
  };
  if (!traits(schedule).follows_deepspeed)
    origin.not_modelled(type, c.optimizer.at("type"),
                        "only as DeepSpeed has it: set run.schedule to \"deepspeed\", or use "
                        "another optimizer");
  if (c.stage == 3) check_sharded_muon(c, origin, needs);
}

void read_betas(const DsValues& params, const Origin& origin, OptimizerSpec& spec) {
  const Json betas = params.at("betas");
  const auto is_beta = [](const Json& b) {
    return b.is_number() && b.get<double>() >= 0 && b.get<double>() < 1;
  };
  if (betas.size() != 2 || !is_beta(betas[0]) || !is_beta(betas[1]))
    origin.refuse(params.key("betas"), betas, "must be two numbers, at least 0 and below 1");
  spec.beta1 = betas[0].get<double>();
  spec.beta2 = betas[1].get<double>();
}

// In DeepSpeed "Adam" means AdamW too, unless adam_w_mode is false.
void read_adam(const DsConfig& c, const Origin& origin, OptimizerSpec& spec) {
  const DsValues& params = c.optimizer_params;
  const bool adam = lower_case(type_of(c.optimizer)) == "adam";
  spec.type = adam && !params.flag("adam_w_mode") ? Optimizer::adam : Optimizer::adamw;
  read_betas(params, origin, spec);
  spec.unfused = params.flag("torch_adam");
}

void read_muon(const DsValues& params, const Origin& origin, OptimizerSpec& spec) {
  const auto rate = [&](const char* own) {
    return params.number(params.given("lr") && !params.given(own) ? "lr" : own);
  };
  spec.type = params.at("ns_method") == "gram" ? Optimizer::muon : Optimizer::standard_muon;
  spec.lr = rate("muon_lr");
  spec.adam_lr = rate("adam_lr");
  read_betas(params, origin, spec);
}

void read_sgd(const DsValues& params, const Origin& origin, OptimizerSpec& spec) {
  spec.type = spec.momentum != 0 ? Optimizer::momentum_sgd : Optimizer::sgd;
  if (spec.nesterov && (spec.momentum == 0 || spec.dampening != 0))
    origin.refuse(
        params.key("nesterov"), params.at("nesterov"),
        fmt::format("needs {} above 0 and {} 0", params.key("momentum"), params.key("dampening")));
}

}  // namespace

// DeepSpeed uses an optimizer only if its type is given. An unknown optimizer is refused before its
// parameters are read.
DsValues optimizer_params_of(Origin& origin, const DsValues& optimizer) {
  const std::string key = optimizer.key("params");
  if (optimizer.at("type").is_null()) {
    if (optimizer.given("params"))
      origin.note(
          FindingKind::no_effect, key,
          "the optimizer has no type, so DeepSpeed does not use this section: add \"type\": "
          "\"AdamW\"");
    return {key, section_of(Kernel::adamw)};
  }
  refuse_unknown_type(origin, optimizer);
  const Section& section = section_of(*kernel_named(type_of(optimizer)));
  if (!optimizer.given("params")) return {key, section};
  return {origin, key, optimizer.at("params"), section};
}

bool uses_muon(const DsConfig& c) {
  return kernel_of(c) == Kernel::muon;
}

void check_optimizer(const DsConfig& c, const Origin& origin, Schedule schedule) {
  check_names(c, origin);
  check_ratio(c, origin);
  const Kernel kernel = kernel_of(c);
  const Json type = c.optimizer.at("type");
  const bool torch = traits(schedule).follows_torch;
  if (kernel == Kernel::muon) check_muon(c, origin, schedule);
  if (torch && kernel == Kernel::lion)
    origin.not_modelled(c.optimizer.key("type"), type,
                        "PyTorch has no Lion: use \"AdamW\", or run.schedule \"deepspeed\"");
  if (!torch && c.stage > 0 && kernel == Kernel::sgd &&
      !c.top.flag("zero_allow_untested_optimizer"))
    origin.refuse(c.optimizer.key("type"), type,
                  fmt::format("ZeRO takes optimizers that it was not tested with only if {} is "
                              "true: set it",
                              c.top.key("zero_allow_untested_optimizer")));
}

OptimizerSpec optimizer_spec(const DsConfig& c, const Origin& origin) {
  const DsValues& params = c.optimizer_params;
  Deck deck;
  params.fill(deck);
  OptimizerSpec& spec = deck.zero.optimizer;
  spec.lr = params.number("lr");  // also if a scheduler replaces it
  spec.unfused = true;
  switch (kernel_of(c)) {
    case Kernel::lion:
      spec.type = offloads_optimizer(c) ? Optimizer::host_lion : Optimizer::lion;
      read_betas(params, origin, spec);
      break;
    case Kernel::sgd: read_sgd(params, origin, spec); break;
    case Kernel::adagrad: spec.type = Optimizer::adagrad; break;
    case Kernel::muon: read_muon(params, origin, spec); break;
    default: read_adam(c, origin, spec);
  }
  return spec;
}

}  // namespace shardmark
