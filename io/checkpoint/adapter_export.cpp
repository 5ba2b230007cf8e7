// SPDX-License-Identifier: Apache-2.0
#include <core/error.hpp>
#include <io/checkpoint/adapter_export.hpp>
#include <io/json/json_source.hpp>

namespace shardmark {
namespace {

// The section `model` of the deck that wrote a checkpoint, in which configs by path are inlined.
Json model_of(const Manifest& manifest) {
  const Json deck = Json::parse(manifest.deck, nullptr, false, true);
  const auto model = deck.is_object() ? deck.find("model") : deck.end();
  return model != deck.end() && model->is_object() ? *model : Json::object();
}

// The reverse of what io/hf/model_config.cpp makes of the file.
Json peft_config(const Json& adapter, bool in_out) {
  const Json rank = adapter.value("rank", Json(0)), scaling = adapter.value("scaling", Json(1));
  if (!rank.is_number() || !scaling.is_number())
    throw IoError("model.adapter of the checkpoint's deck: rank and scaling must be numbers");
  const Json bias = adapter.value("bias", Json("none"));
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"base_model_name_or_path", nullptr},
          {"inference_mode", true},
          {"r", rank},
          {"lora_alpha", adapter.value("alpha", Json(rank.get<double>() * scaling.get<double>()))},
          {"use_rslora", adapter.value("use_rslora", Json(false))},
          {"rank_pattern", adapter.value("rank_pattern", Json::object())},
          {"alpha_pattern", adapter.value("alpha_pattern", Json::object())},
          {"target_modules", adapter.value("targets", Json(nullptr))},
          {"layers_to_transform", adapter.value("layers", Json(nullptr))},
          {"modules_to_save", adapter.value("modules_to_save", Json(nullptr))},
          {"bias", bias == "adapted" ? Json("lora_only") : bias},
          {"lora_dropout", 0},
          {"fan_in_fan_out", in_out},
          {"init_lora_weights", true}};
}

void remove(std::string& name, std::string_view part, std::string_view kept) {
  if (const std::size_t at = name.find(part); at != std::string::npos)
    name.replace(at, part.size(), kept);
}

}  // namespace

std::string adapter_config_of(const Manifest& manifest) {
  const Json model = model_of(manifest);
  const auto adapter = model.find("adapter");
  if (adapter == model.end() || !adapter->is_object()) return {};
  return peft_config(*adapter, model.value("in_out", Json(false)) == true).dump(2) + "\n";
}

std::string adapter_tensor_name(std::string name) {
  remove(name, ".lora_A.default.", ".lora_A.");
  remove(name, ".lora_B.default.", ".lora_B.");
  remove(name, ".modules_to_save.default.", ".");
  return name;
}

std::vector<StoredParam> zero_buffers(const Manifest& manifest,
                                      const std::vector<StoredParam>& params) {
  constexpr std::string_view router = ".mlp.gate.", weight = "weight";
  const Json model = model_of(manifest);
  const Json moe = model.value("moe", Json(nullptr));
  std::vector<StoredParam> buffers;
  if (!moe.is_object() || moe.value("scores", Json(nullptr)) != "sigmoid") return buffers;
  for (const StoredParam& p : params)
    if (p.name.ends_with(std::string(router) + std::string(weight)) && !p.shape.empty()) {
      const std::int64_t experts = p.shape.front();
      buffers.push_back(
          {p.name.substr(0, p.name.size() - weight.size()) + "e_score_correction_bias",
           experts,
           {experts}});
    }
  return buffers;
}

}  // namespace shardmark
