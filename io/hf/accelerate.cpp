// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <fmt/core.h>

#include <core/text.hpp>
#include <io/deepspeed/schema/key_table.hpp>
#include <io/hf/accelerate.hpp>

namespace shardmark {
namespace {

constexpr const char* by_plugin = "Accelerate's plugin";

// Whether Accelerate takes a value as true, which it decides by str(value).lower() == "true".
bool reads_true(const Json* value) {
  return value != nullptr &&
         (*value == true || *value == "true" || *value == "True" || *value == "TRUE");
}

// "/a/b" of "a.b".
Json::json_pointer pointer(std::string_view path) {
  std::string text = fmt::format("/{}", path);
  std::replace(text.begin(), text.end(), '.', '/');
  return Json::json_pointer(text);
}

}  // namespace

std::string config_key(std::string_view path) {
  return join_key("deepspeed", path);
}

const Json* PluginConfig::get(std::string_view path) const {
  const Json::json_pointer at = pointer(path);
  if (!config_.contains(at)) return nullptr;
  const Json& value = config_.at(at);
  return value.is_null() ? nullptr : &value;
}

bool PluginConfig::is_auto(std::string_view path) const {
  const Json* value = get(path);
  return value != nullptr && *value == "auto";
}

void PluginConfig::fill(std::string_view path, const Json& value, const std::string& why) {
  if (!is_auto(path)) return;
  config_[pointer(path)] = value;
  origin_.note(FindingKind::filled, config_key(path), fmt::format("{}: {}", brief(value), why));
}

void PluginConfig::add(std::string_view path, const Json& value, const std::string& why) {
  config_[pointer(path)] = value;
  origin_.note(FindingKind::derived, config_key(path), fmt::format("{}: {}", brief(value), why));
}

void PluginConfig::remove(std::string_view path) {
  const Json::json_pointer at = pointer(path);
  if (config_.contains(at)) config_.at(at.parent_pointer()).erase(at.back());
}

void PluginConfig::complete() {
  const std::string steps = "gradient_accumulation_steps";
  if (!config_.contains(steps)) add(steps, 1, "absent: Accelerate's plugin takes 1");
  if (!config_.contains(zero_section))
    origin_.missing(config_key(zero_section),
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

namespace {

// Keys at the top of Accelerate's file that say how processes start, which mpiexec does here.
constexpr std::array launch_keys{"compute_environment",
                                 "debug",
                                 "downcast_bf16",
                                 "dynamo_backend",
                                 "dynamo_config",
                                 "enable_cpu_affinity",
                                 "fp16",
                                 "fp8_config",
                                 "fsdp_config",
                                 "gpu_ids",
                                 "machine_rank",
                                 "main_process_ip",
                                 "main_process_port",
                                 "main_training_function",
                                 "megatron_lm_config",
                                 "mpirun_config",
                                 "num_machines",
                                 "parallelism_config",
                                 "rdzv_backend",
                                 "same_network",
                                 "tpu_env",
                                 "tpu_name",
                                 "tpu_use_cluster",
                                 "tpu_use_sudo",
                                 "tpu_zone",
                                 "tpu_vm",
                                 "command_file",
                                 "commands",
                                 "use_cpu"};
constexpr std::array used_keys{"deepspeed_config", "distributed_type", "mixed_precision",
                               "num_processes"};

// Keys of deepspeed_config that a DeepSpeed config beside them would contradict.
constexpr std::array plugin_keys{
    "gradient_accumulation_steps", "gradient_clipping",     "zero_stage",
    "offload_optimizer_device",    "offload_param_device",  "offload_optimizer_nvme_path",
    "offload_param_nvme_path",     "zero3_save_16bit_model"};
// Keys of deepspeed_config about start-up and launching.
constexpr std::array start_keys{"zero3_init_flag",
                                "deepspeed_config_file",
                                "deepspeed_multinode_launcher",
                                "deepspeed_hostfile",
                                "deepspeed_inclusion_filter",
                                "deepspeed_exclusion_filter",
                                "deepspeed_moe_layer_cls_names"};

template<class Names>
bool contains(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> accelerate_names() {
  std::vector<std::string> names(used_keys.begin(), used_keys.end());
  names.insert(names.end(), launch_keys.begin(), launch_keys.end());
  return names;
}

// The plugin's keys, which reach it as text in environment variables.
class PluginKeys {
 public:
  PluginKeys(const Origin& origin, const Json& keys) : origin_(origin), keys_(keys) {}

  static std::string key(std::string_view name) {
    return join_key(config_key("deepspeed_config"), name);
  }
  const Json* find(const char* name) const {
    const auto it = keys_.find(name);
    return it == keys_.end() || it->is_null() ? nullptr : &*it;
  }
  // A number, also as text; "auto" if that is allowed and given, or if the key is absent.
  Json number(const char* name, bool whole, const Json& fallback) const {
    const Json* value = find(name);
    if (value == nullptr) return fallback;
    Json number = *value;
    if (value->is_string() && *value != "auto")
      number = Json::parse(value->get<std::string>(), nullptr, false);
    if (number == "auto" && fallback == "auto") return number;
    const auto integer = as_integer(number);
    if (!number.is_number() || number < 0 || (whole && !integer))
      origin_.refuse(key(name), *value,
                     whole ? "must be an integer, at least 0" : "must be a number, at least 0");
    return whole ? Json(*integer) : number;
  }
  std::string device(const char* name) const {
    const Json* value = find(name);
    std::string device = value == nullptr     ? "none"
                         : value->is_string() ? lower_case(value->get<std::string>())
                                              : "?";
    if (device != "none" && device != "cpu" && device != "nvme")
      origin_.refuse(key(name), *value, "must be \"none\", \"cpu\" or \"nvme\"");
    return device;
  }
  bool flag(const char* name) const {
    const Json* value = find(name);
    if (value == nullptr) return false;
    if (value->is_boolean()) return *value == true;
    const std::string text = value->is_string() ? lower_case(value->get<std::string>()) : "?";
    if (text != "true" && text != "false")
      origin_.refuse(key(name), *value, "must be true or false");
    return text == "true";
  }

 private:
  const Origin& origin_;
  const Json& keys_;
};

void offload(Json& zero, const PluginKeys& keys, const std::string& what) {
  const std::string device = keys.device((what + "_device").c_str());
  if (device == "none") return;
  zero[what]["device"] = device;
  if (device != "nvme") return;
  const Json* path = keys.find((what + "_nvme_path").c_str());
  zero[what]["nvme_path"] = path ? *path : Json("none");
}

// DeepSpeedPlugin without a DeepSpeed config of its own.
Json from_plugin_keys(Origin& origin, const PluginKeys& keys) {
  Json zero = {{"stage", keys.number("zero_stage", true, 2)},
               {"stage3_gather_16bit_weights_on_model_save", keys.flag("zero3_save_16bit_model")}};
  offload(zero, keys, "offload_optimizer");
  offload(zero, keys, "offload_param");
  Json config = {{"train_batch_size", "auto"}, {"train_micro_batch_size_per_gpu", "auto"}};
  config["gradient_accumulation_steps"] = keys.number("gradient_accumulation_steps", true, "auto");
  const Json clipping = keys.number("gradient_clipping", false, "auto");
  if (clipping != 0) config["gradient_clipping"] = clipping;
  if (!keys.find("zero_stage"))
    origin.note(FindingKind::derived, config_key("zero_optimization.stage"),
                "2: zero_stage is absent, and Accelerate takes 2");
  config[zero_section] = zero;
  return config;
}

// The launcher refuses keys that the file would hide.
void refuse_hidden_keys(const Origin& origin, const Json& config, const PluginKeys& keys) {
  std::vector<std::string> hidden;
  for (const char* name : plugin_keys)
    if (keys.find(name)) hidden.emplace_back(name);
  if (const auto it = config.find("mixed_precision"); it != config.end() && !it->is_null())
    hidden.emplace_back("mixed_precision");
  if (!hidden.empty())
    origin.refuse(PluginKeys::key("deepspeed_config_file"), "given",
                  fmt::format("Accelerate refuses {} beside it: write them into the DeepSpeed "
                              "config and remove them here",
                              join(hidden, ", ")));
}

void check_keys(Origin& origin, const Json& config) {
  for (const auto& item : config.items())
    if (!contains(used_keys, item.key()) && !contains(launch_keys, item.key()) &&
        ds_key(item.key()) == nullptr)
      refuse_unknown(origin, "deepspeed", item.key(), item.value(), accelerate_names());
  const std::string section = config_key("deepspeed_config");
  const Json empty;
  const Json& keys = config.contains("deepspeed_config") ? config["deepspeed_config"] : empty;
  if (!keys.is_object())
    origin.missing(section,
                   "Accelerate's config for DeepSpeed has this section: add it, for "
                   "example with zero_stage: 3");
  for (const auto& item : keys.items())
    if (!contains(plugin_keys, item.key()) && !contains(start_keys, item.key()))
      origin.note(FindingKind::ignored, join_key(section, item.key()),
                  "unknown to Accelerate's plugin, which ignores it");
}

void check_kind(const Origin& origin, const Json& config) {
  const auto it = config.find("distributed_type");
  if (it == config.end()) return;
  const std::string type = it->is_string() ? lower_case(it->get<std::string>()) : "?";
  if (type != "deepspeed")
    origin.refuse(config_key("distributed_type"), *it,
                  "must be \"DEEPSPEED\": ShardMark trains as DeepSpeed does");
}

void note_processes(Origin& origin, const Json& config, std::optional<int> world) {
  const auto it = config.find("num_processes");
  if (it != config.end() && world && *it != *world)
    origin.note(
        FindingKind::no_effect, config_key("num_processes"),
        fmt::format("{}: the ranks are those of mpiexec or --ranks, {} here", brief(*it), *world));
}

}  // namespace

bool is_accelerate_config(const Json& config) {
  return config.is_object() &&
         (config.contains("deepspeed_config") || config.contains("distributed_type"));
}

Json accelerate_config(Origin& origin, const Json& config, std::optional<int> world) {
  check_kind(origin, config);
  check_keys(origin, config);
  note_processes(origin, config, world);
  const PluginKeys keys(origin, config["deepspeed_config"]);
  Json result;
  if (const Json* file = keys.find("deepspeed_config_file")) {
    refuse_hidden_keys(origin, config, keys);
    if (!file->is_object())
      origin.refuse(PluginKeys::key("deepspeed_config_file"), *file, "must be the path of a file");
    result = *file;
  } else {
    result = from_plugin_keys(origin, keys);
  }
  for (const auto& item : config.items())
    if (ds_key(item.key()) != nullptr &&
        (item.value().is_object() || !contains(launch_keys, item.key())))
      result.merge_patch(Json{{item.key(), item.value()}});
  return result;
}

std::string accelerate_precision(const Origin& origin, const Json& config) {
  const auto it = config.find("mixed_precision");
  const auto old = config.find("fp16");  // how older versions wrote mixed_precision
  if (it == config.end()) return old != config.end() && *old == true ? "fp16" : "no";
  if (it->is_null() || *it == false) return "no";  // YAML reads no as false
  std::string type = it->is_string() ? lower_case(it->get<std::string>()) : "?";
  if (type == "fp8") origin.not_modelled(config_key("mixed_precision"), *it, "use \"bf16\"");
  if (type != "no" && type != "fp16" && type != "bf16")
    origin.refuse(config_key("mixed_precision"), *it, "must be \"no\", \"fp16\" or \"bf16\"");
  return type;
}

void complete_without_trainer(PluginConfig& config, const std::string& precision,
                              std::optional<std::int64_t> hidden) {
  config.complete();
  config.set_mixed_precision(precision, "mixed_precision of Accelerate's config");
  config.fill("gradient_accumulation_steps", 1, "Accelerate's default");
  config.fill("gradient_clipping", 1.0, "Accelerate's default");
  fill_sizes(config, hidden, true);
}

}  // namespace shardmark
