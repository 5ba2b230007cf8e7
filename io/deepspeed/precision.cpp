// SPDX-License-Identifier: Apache-2.0
// In which types DeepSpeed stores, accumulates and sends, how it handles overflows, and the section
// `torch_autocast`: which modules are sent in 16 bits, and what DeepSpeed and ShardMark do not
// combine it with. Checked against DeepSpeed 0.19.8.
#include <cmath>

#include <fmt/core.h>

#include <io/deepspeed/sections.hpp>

namespace shardmark {

std::optional<Dtype> named_dtype(const Json& value) {
  const auto name = value.get<std::string>();
  if (name.find("bf") != std::string::npos) return Dtype::bf16;
  if (name.find("16") != std::string::npos || name == "half") return Dtype::fp16;
  if (name.find("int8") != std::string::npos) return std::nullopt;
  return Dtype::fp32;
}

namespace {

Dtype model_dtype(const DsConfig& c) {
  if (c.fp16.flag("enabled")) return Dtype::fp16;
  return c.bf16.flag("enabled") ? Dtype::bf16 : Dtype::fp32;
}

Dtype grad_accum_dtype(const DsConfig& c, Dtype model, const Origin& origin) {
  const Json given = c.data_types.effective("grad_accum_dtype");
  if (given.is_null()) return model;
  const auto type = named_dtype(given);
  if (type == model) return model;
  const std::string key = c.data_types.key("grad_accum_dtype");
  if (c.stage == 0)
    origin.refuse(key, given,
                  fmt::format("stage 0 accumulates in the model's own type, {}: remove the key",
                              to_string(model)));
  if (type != Dtype::fp32) origin.not_modelled(key, given, "use \"fp32\" or remove the key");
  return *type;
}

// Python's 2.0 ** power overflows above these bounds and becomes 0 below them.
constexpr std::int64_t min_power = -1022, max_power = 1023;

LossScaleSpec loss_scale_spec(const DsConfig& c, const Origin& origin) {
  Deck deck;
  LossScaleSpec& spec = deck.zero.precision.loss_scale;
  const double fixed = c.fp16.number("loss_scale");
  if (fixed != 0) {
    spec.initial = fixed;
    return spec;
  }
  const auto power = c.fp16.at("initial_scale_power").get<std::int64_t>();
  if (power < min_power || power > max_power)
    origin.refuse(c.fp16.key("initial_scale_power"), power,
                  fmt::format("must be an integer from {} to {}", min_power, max_power));
  c.fp16.fill(deck);
  spec.dynamic = true;
  spec.initial = std::ldexp(1.0, static_cast<int>(power));
  return spec;
}

void check_param_dtype(const DsConfig& c, Dtype model, const Origin& origin) {
  const Json given = c.data_types.at("param_dtype");
  if (!given.is_null() && named_dtype(given) != model)
    origin.refuse(c.data_types.key("param_dtype"), given,
                  fmt::format("must be the type that fp16 and bf16 choose, {}: enable the one that "
                              "is meant, or remove the key",
                              to_string(model)));
}

// If ranks divide samples, the engine takes the type from a key of its own, and stages 1 and 2 send
// fp32 whatever that says.
Dtype comm_dtype(const DsConfig& c, Dtype model, const Origin& origin) {
  const Json given = c.top.effective("communication_data_type");
  if (!divides_samples(c)) return given.is_null() ? model : named_dtype(given).value_or(model);
  constexpr const char* key = "seq_parallel_communication_data_type";
  if (const Json own = c.top.at(key); !own.is_null() && named_dtype(own) != Dtype::fp32)
    origin.not_modelled(c.top.key(key), own, "use \"fp32\" or remove the key");
  return Dtype::fp32;
}

}  // namespace

bool uses_bf16_optimizer(const DsConfig& c) {
  const Dtype model = model_dtype(c);
  const Json accum = c.data_types.at("grad_accum_dtype");
  const Dtype grad_accum = accum.is_null() ? model : named_dtype(accum).value_or(model);
  return uses_bf16_optimizer(c.stage, model, grad_accum, offloads_optimizer(c));
}

PrecisionSpec precision_spec(const DsConfig& c, const Origin& origin) {
  PrecisionSpec spec;
  spec.model = model_dtype(c);
  check_param_dtype(c, spec.model, origin);
  spec.grad_accum = grad_accum_dtype(c, spec.model, origin);
  if (c.bf16.flag("enabled") && c.bf16.flag("bf16_master_weights_and_grads") &&
      !uses_bf16_optimizer(c))
    spec.master = Dtype::bf16;
  spec.comm = comm_dtype(c, spec.model, origin);
  if (spec.model == Dtype::fp16) {
    spec.check_overflow = true;
    spec.loss_scale = loss_scale_spec(c, origin);
  } else if (spec.model == Dtype::bf16) {
    spec.check_overflow = (c.stage == 1 || c.stage == 2) && !uses_bf16_optimizer(c) &&
                          c.bf16.flag("check_grad_overflow");
  }
  return spec;
}

namespace {

// DeepSpeed imports each class by its name.
std::vector<std::string> safe_classes(const DsConfig& c, const Origin& origin) {
  const Json given = c.torch_autocast.at("lower_precision_safe_modules");
  const std::string key = c.torch_autocast.key("lower_precision_safe_modules");
  if (given.is_null())
    return {"torch.nn.Linear", "torch.nn.Conv1d", "torch.nn.Conv2d", "torch.nn.Conv3d"};
  std::vector<std::string> classes;
  for (const Json& name : given) {
    if (name.get<std::string>().find('.') == std::string::npos)
      origin.refuse(key, name,
                    "must be the name of a Python class with its module, for example "
                    "\"torch.nn.Linear\"");
    classes.push_back(name.get<std::string>());
  }
  return classes;
}

Dtype autocast_dtype(const DsConfig& c, const Origin& origin) {
  const Json given = c.torch_autocast.at("dtype");
  const std::string key = c.torch_autocast.key("dtype");
  if (given.is_null()) origin.missing(key, "give the type of the products, \"bf16\" or \"fp16\"");
  const auto type = named_dtype(given);
  if (type != Dtype::bf16 && type != Dtype::fp16)
    origin.not_modelled(key, given,
                        "products in a type that has not 16 bits: give \"bf16\" or \"fp16\"");
  return *type;
}

void check_beside(const DsConfig& c, const Origin& origin) {
  const auto beside = [&](const std::string& key, const Json& value) {
    origin.not_modelled(
        key, value, fmt::format("beside {}: remove one of the two", c.top.key("torch_autocast")));
  };
  for (const DsValues* section : {&c.bf16, &c.fp16})
    if (section->flag("enabled")) beside(section->key("enabled"), true);
  if (c.zero.flag("zero_quantized_weights"))
    origin.refuse(c.zero.key("zero_quantized_weights"), true,
                  fmt::format("DeepSpeed refuses it beside {}: remove one of the two",
                              c.top.key("torch_autocast")));
  if (c.stage != 3) return;
  for (const DsValues* offload : {&c.offload_optimizer, &c.offload_param})
    if (offload->at("device") == "nvme") beside(offload->key("device"), "nvme");
  if (c.zero.flag("zero_quantized_gradients")) beside(c.zero.key("zero_quantized_gradients"), true);
}

}  // namespace

bool autocasts(const DsConfig& c) {
  return c.torch_autocast.flag("enabled");
}

AutocastSpec autocast_spec(const DsConfig& c, const Origin& origin, Schedule schedule) {
  if (!autocasts(c)) return {};
  if (!traits(schedule).follows_deepspeed)
    origin.not_modelled(c.torch_autocast.key("enabled"), true,
                        "remove the section, or set run.schedule to \"deepspeed\"");
  check_beside(c, origin);
  return {autocast_dtype(c, origin), safe_classes(c, origin)};
}

}  // namespace shardmark
