// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <io/deepspeed_config.hpp>

namespace shardmark {
namespace {

const std::string root = "deepspeed";

// `true` was once how stage 1 was asked for.
Json zero_object(const Json& value) {
  if (value.is_boolean()) return {{"stage", value.get<bool>() ? 1 : 0}};
  return value;
}

DsValues section_of(Origin& origin, const DsValues& parent, std::string_view name,
                    const DsSection& section) {
  if (!parent.given(name) || parent.at(name).is_null()) return {parent.key(name), section};
  return DsValues(origin, parent.key(name), parent.at(name), section);
}

// DeepSpeed uses an optimizer only if it is named; one that we do not know is refused before its
// parameters are looked at.
DsValues adam_of(Origin& origin, const DsValues& optimizer) {
  const Json type = optimizer.at("type");
  if (type.is_null()) {
    if (optimizer.given("params"))
      origin.note(FindingKind::no_effect, optimizer.key("params"),
                  "the optimizer's type is not named, so DeepSpeed uses none of it: add \"type\": "
                  "\"AdamW\"");
    return {optimizer.key("params"), ds_adam()};
  }
  auto name = type.get<std::string>();
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (name != "adam" && name != "adamw")
    origin.not_modelled(optimizer.key("type"), type, "use \"AdamW\" or \"Adam\"");
  return section_of(origin, optimizer, "params", ds_adam());
}

std::optional<std::int64_t> batch_key(const DsValues& top, const Origin& origin, const char* name) {
  const Json value = top.at(name);
  if (value.is_null()) return std::nullopt;
  const auto v = as_integer(value);
  if (!v || *v < 1)
    origin.refuse(top.key(name), value,
                  value == "auto" ? "must be an integer, at least 1: \"auto\" is for "
                                    "Hugging Face's trainer to fill in"
                                  : "must be an integer, at least 1");
  return v;
}

OptimizerSpec optimizer_spec(const DsValues& adam, const Origin& origin) {
  OptimizerSpec spec;
  spec.lr = adam.number("lr");
  spec.eps = adam.number("eps");
  spec.weight_decay = adam.number("weight_decay");
  const Json betas = adam.at("betas");
  const auto is_beta = [](const Json& b) {
    return b.is_number() && b.get<double>() >= 0 && b.get<double>() < 1;
  };
  if (betas.size() != 2 || !is_beta(betas[0]) || !is_beta(betas[1]))
    origin.refuse(adam.key("betas"), betas, "must be two numbers, at least 0 and below 1");
  spec.beta1 = betas[0].get<double>();
  spec.beta2 = betas[1].get<double>();
  return spec;
}

void check_scheduler(const DsValues& top, const Origin& origin) {
  const Json scheduler = top.at("scheduler");
  if (scheduler.contains("type"))
    origin.not_modelled(top.key("scheduler") + ".type", scheduler["type"],
                        "remove the section; the learning rate is constant");
}

// Offload is what a device other than none asks for; DeepSpeed looks at offload_param at stage 3
// only.
void judge_offload(const DsConfig& c, Origin& origin, std::string_view schedule) {
  c.offload_optimizer.judge(origin, c.stage, schedule);
  if (c.stage == 3)
    c.offload_param.judge(origin, c.stage, schedule);
  else if (c.zero.given("offload_param"))
    origin.note(
        FindingKind::no_effect, c.zero.key("offload_param"),
        fmt::format("DeepSpeed offloads parameters at stage 3 only, this is stage {}", c.stage));
}

}  // namespace

DsConfig parse_deepspeed(Origin& origin, const Json& config) {
  const DsValues top(origin, root, config, ds_top_level());
  const DsValues zero = top.given("zero_optimization")
                            ? DsValues(origin, top.key("zero_optimization"),
                                       zero_object(top.at("zero_optimization")), ds_zero())
                            : DsValues(top.key("zero_optimization"), ds_zero());
  DsValues offload_param = section_of(origin, zero, "offload_param", ds_offload_param());
  DsValues offload_optimizer =
      section_of(origin, zero, "offload_optimizer", ds_offload_optimizer());
  DsValues fp16 = section_of(origin, top, "fp16", ds_fp16());
  DsValues bf16 = section_of(origin, top, "bf16", ds_bf16());
  DsValues optimizer = section_of(origin, top, "optimizer", ds_optimizer());
  DsValues adam = adam_of(origin, optimizer);
  DsValues data_types = section_of(origin, top, "data_types", ds_data_types());
  const int stage = zero.at("stage").get<int>();
  return {top,
          zero,
          std::move(offload_param),
          std::move(offload_optimizer),
          std::move(fp16),
          std::move(bf16),
          std::move(optimizer),
          std::move(adam),
          std::move(data_types),
          stage};
}

ZeroSpec read_deepspeed(Origin& origin, const Json& config, std::string_view schedule) {
  const DsConfig c = parse_deepspeed(origin, config);
  check_deepspeed_rules(c, origin);
  ZeroSpec spec;
  spec.stage = c.stage;
  spec.train_batch_size = batch_key(c.top, origin, "train_batch_size");
  spec.micro_batch_size = batch_key(c.top, origin, "train_micro_batch_size_per_gpu");
  spec.accumulation_steps = batch_key(c.top, origin, "gradient_accumulation_steps");
  if (!spec.train_batch_size && !spec.micro_batch_size)
    origin.missing(root,
                   "DeepSpeed needs a batch size: give train_batch_size or "
                   "train_micro_batch_size_per_gpu");
  spec.gradient_clipping = c.top.number("gradient_clipping");
  spec.optimizer = optimizer_spec(c.adam, origin);

  check_scheduler(c.top, origin);
  judge_offload(c, origin, schedule);
  for (const DsValues* values :
       {&c.top, &c.zero, &c.fp16, &c.bf16, &c.optimizer, &c.adam, &c.data_types})
    values->judge(origin, c.stage, schedule);
  if (spec.gradient_clipping < 0)
    origin.note(FindingKind::warning, c.top.key("gradient_clipping"),
                "below 0: DeepSpeed accepts it, and does not clip");
  return spec;
}

}  // namespace shardmark
