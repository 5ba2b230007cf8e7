// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <io/deepspeed/complete_config.hpp>
#include <io/deepspeed/config.hpp>

namespace shardmark {
namespace {

using OrderedJson = nlohmann::ordered_json;

Json converted(const Json& object, const Section& section, const std::string& path);

// The value of a key as DeepSpeed takes it.
Json value_of(const Key& row, const Json& value, const Section& section, const std::string& path) {
  const Section* below = find_section(path);
  if (below != nullptr && value.is_object()) return converted(value, *below, path);
  if (path == "zero_optimization" && value.is_boolean())
    return {{"stage", value.get<bool>() ? 1 : 0}};
  return coerce(row, value, section.reading == Reading::model).value_or(value);
}

Json converted(const Json& object, const Section& section, const std::string& path) {
  Json result = Json::object();
  for (const auto& [name, value] : object.items()) {
    const Key* row = find_key(section.keys, name);
    if (row == nullptr || value.is_null() || value == "auto") continue;
    result[name] = value_of(*row, value, section, join_key(path, row->name));
  }
  return result;
}

// `cpu_offload` and `cpu_offload_param` are older spellings of the sections.
void replace_deprecated(Json& zero) {
  for (const auto& [old_name, name] : {std::pair{"cpu_offload", "offload_optimizer"},
                                       std::pair{"cpu_offload_param", "offload_param"}}) {
    const auto it = zero.find(old_name);
    if (it == zero.end()) continue;
    if (*it == true)
      zero[name] = {{"device", "cpu"},
                    {"pin_memory", zero.value("cpu_offload_use_pin_memory", true)}};
    zero.erase(old_name);
  }
  zero.erase("cpu_offload_use_pin_memory");
}

Json adamw(const OptimizerSpec& o) {
  return {{"type", "AdamW"},
          {"params",
           {{"lr", o.lr},
            {"betas", {o.beta1, o.beta2}},
            {"eps", o.eps},
            {"weight_decay", o.weight_decay}}}};
}

OrderedJson in_order(Json config) {
  OrderedJson ordered;
  for (const char* first : {"train_batch_size", "train_micro_batch_size_per_gpu",
                            "gradient_accumulation_steps", "gradient_clipping", "bf16", "bfloat16",
                            "fp16", "data_types", "optimizer", "scheduler", "zero_optimization"})
    if (const auto it = config.find(first); it != config.end()) {
      ordered[first] = *it;
      config.erase(it);
    }
  for (const auto& [name, value] : config.items()) ordered[name] = value;
  return ordered;
}

}  // namespace

OrderedJson complete_deepspeed(const Json& config, const ZeroSpec& zero, const Batch& batch) {
  Json result = converted(config, ds_section(""), "");
  result["train_batch_size"] = zero.parallel.train_batch_size(batch.global);
  result["train_micro_batch_size_per_gpu"] = batch.micro;
  result["gradient_accumulation_steps"] = batch.accumulation;
  if (!result.contains("zero_optimization")) result["zero_optimization"] = {{"stage", zero.stage}};
  replace_deprecated(result["zero_optimization"]);
  Json& optimizer = result["optimizer"];
  if (!optimizer.is_object() || !optimizer.contains("type")) optimizer = adamw(zero.optimizer);
  return in_order(std::move(result));
}

}  // namespace shardmark
