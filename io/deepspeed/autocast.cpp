// SPDX-License-Identifier: Apache-2.0
// The section `torch_autocast`: which modules are sent in 16 bits, and what DeepSpeed and ShardMark
// do not combine it with. Checked against DeepSpeed 0.19.8.
#include <fmt/core.h>

#include <io/deepspeed/sections.hpp>

namespace shardmark {
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
