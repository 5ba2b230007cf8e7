// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <io/hf/plugin_config.hpp>

namespace shardmark {
namespace {

constexpr const char* by_plugin = "Accelerate's plugin";

// As Python's str(value).lower() == "true" judges it.
bool reads_true(const Json* value) {
  return value != nullptr &&
         (*value == true || *value == "true" || *value == "True" || *value == "TRUE");
}

}  // namespace

std::string config_key(std::string_view path) {
  return join_key("deepspeed", path);
}

Json* PluginConfig::find(std::string_view path) {
  Json* node = &config_;
  while (true) {
    if (!node->is_object()) return nullptr;
    const std::size_t dot = path.find('.');
    const auto it = node->find(std::string(path.substr(0, dot)));
    if (it == node->end() || it->is_null()) return nullptr;
    if (dot == std::string_view::npos) return &*it;
    path.remove_prefix(dot + 1);
    node = &*it;
  }
}

const Json* PluginConfig::get(std::string_view path) const {
  return const_cast<PluginConfig*>(this)->find(path);
}

bool PluginConfig::is_auto(std::string_view path) const {
  const Json* value = get(path);
  return value != nullptr && *value == "auto";
}

void PluginConfig::fill(std::string_view path, const Json& value, const std::string& why) {
  if (!is_auto(path)) return;
  *find(path) = value;
  origin_.note(FindingKind::filled, config_key(path), fmt::format("{}: {}", brief(value), why));
}

void PluginConfig::add(std::string_view path, const Json& value, const std::string& why) {
  Json* node = &config_;
  std::string_view rest = path;
  for (std::size_t dot = rest.find('.'); dot != std::string_view::npos; dot = rest.find('.')) {
    node = &(*node)[std::string(rest.substr(0, dot))];
    rest.remove_prefix(dot + 1);
  }
  (*node)[std::string(rest)] = value;
  origin_.note(FindingKind::derived, config_key(path), fmt::format("{}: {}", brief(value), why));
}

void PluginConfig::remove(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  Json* parent = dot == std::string_view::npos ? &config_ : find(path.substr(0, dot));
  if (parent != nullptr && parent->is_object())
    parent->erase(std::string(dot == std::string_view::npos ? path : path.substr(dot + 1)));
}

void PluginConfig::complete() {
  const std::string steps = "gradient_accumulation_steps";
  if (!config_.contains(steps)) add(steps, 1, "absent: Accelerate's plugin takes 1");
  if (!config_.contains("zero_optimization"))
    origin_.missing(config_key("zero_optimization"),
                    "Accelerate refuses a config without it: add the section, for example "
                    "{\"stage\": 2}");
  fill("zero_optimization.stage", 2, by_plugin);
  for (const char* section : {"offload_optimizer", "offload_param"})
    for (const char* name : {"device", "nvme_path"})
      fill(fmt::format("zero_optimization.{}.{}", section, name), "none", by_plugin);
  fill("zero_optimization.stage3_gather_16bit_weights_on_model_save", false, by_plugin);
  // The plugin sets it to infinity, so nothing is printed, whatever the config says.
  if (is_auto("steps_per_print")) remove("steps_per_print");
}

void PluginConfig::set_mixed_precision(const std::string& type, const std::string& why) {
  for (const char* own : {"fp16", "bf16"}) {
    if (type != own) continue;
    const std::string other = type == "fp16" ? "bf16" : "fp16";
    if (!config_.contains(own)) {
      add(type + ".enabled", true, "absent: " + why);
      if (type == "fp16") config_["fp16"]["auto_cast"] = true;
    }
    if (reads_true(get(other + ".enabled")))
      origin_.refuse(
          config_key(other + ".enabled"), true,
          fmt::format("Accelerate refuses {} beside {}: disable one of the two", other, why));
  }
  for (const std::string own : {"fp16", "bf16"}) fill(own + ".enabled", type == own, why);
}

}  // namespace shardmark
