// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/hf/model_config.hpp>
#include <io/hf/model_keys.hpp>
#include <io/hf/model_types.hpp>
#include <io/keys/nearest.hpp>

namespace shardmark {

namespace {

namespace fs = std::filesystem;

// A path may be that of a file's folder.
std::string file_at(const std::string& path, const char* name) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? (fs::path(path) / name).string() : path;
}

void refuse_experts(const ModelConfig& c) {
  for (const char* key :
       {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"})
    if (const Json* experts = c.find(key); experts != nullptr && *experts != 0)
      c.cannot(key,
               "its feed-forward layers have experts, and transformers' class of this type has "
               "none");
}

[[noreturn]] void refuse_type(const ModelConfig& c, const std::string& type) {
  const bool experts = type.find("moe") != std::string::npos || type == "dbrx" ||
                       type == "deepseek_v2" || type == "llama4";
  std::vector<std::string> names;
  for (const ModelType& t : model_types()) names.emplace_back(t.name);
  const std::string near = did_you_mean(type, names, "\"");
  c.cannot("model_type",
           fmt::format("{}{}{}give its description in a model of family \"decoder\" "
                       "(docs/decks.md), or plan it from its modules in one of family \"list\"",
                       experts ? "it has experts; " : "", near, near.empty() ? "" : " Otherwise "));
}

void refuse_common(const ModelConfig& c) {
  if (c.find("quantization_config"))
    c.cannot("quantization_config", "quantized weights are not trained: remove the section");
  if (c.flag("is_encoder_decoder"))
    c.cannot("is_encoder_decoder", "an encoder and a decoder, not one stack of blocks");
  if (c.flag("add_cross_attention"))
    c.cannot("add_cross_attention", "attention to a second sequence");
}

// Dropout, and activations that stand for others.
void note_values(Origin& origin, const ModelConfig& c) {
  for (const char* key : {"hidden_act", "hidden_activation", "activation_function", "activation"})
    if (const std::string given = c.text(key); !given.empty() && !activation_named(given))
      origin.note(FindingKind::warning, "model",
                  fmt::format("{}: {} = \"{}\": sizes and traffic are the same, but ShardMark "
                              "computes \"silu\"",
                              c.path(), key, given));
  for (const char* key :
       {"resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout", "dropout", "hidden_dropout",
        "activation_dropout", "residual_dropout", "embedding_dropout"})
    if (const Json* part = c.find(key); part != nullptr && part->is_number() && *part != 0)
      origin.note(FindingKind::no_effect, "model",
                  fmt::format("{}: {} = {}: ShardMark drops nothing", c.path(), key, brief(*part)));
}

// The decoder of text of a model that reads images too.
ModelConfig text_part(Origin& origin, const ModelConfig& c) {
  const Json* text = c.find("text_config");
  const std::string type = c.text("model_type");
  const bool reads_images = type == "llava" || type == "qwen2_5_vl" || type == "gemma3";
  if (reads_images)
    origin.note(FindingKind::warning, "model",
                fmt::format("{}: model_type = \"{}\": the decoder of text alone is planned: the "
                            "vision tower and what joins it to the decoder are left out",
                            c.path(), type));
  return reads_images && text != nullptr && text->is_object() ? c.part("text_config") : c;
}

// The longest sequence that a model allows says little about the one that it is trained with.
void assume_sequence(Origin& origin, const ModelConfig& c, const std::string& file,
                     const Json& positions) {
  const char* key = c.find("n_positions") ? "n_positions" : "max_position_embeddings";
  origin.findings().push_back(
      {FindingKind::assumed, "model.sequence",
       fmt::format("{}: {} of the model's config, which is an upper bound and not the "
                   "length that one trains with: give --set model.sequence=LENGTH, "
                   "\"model\": {{\"config\": \"{}\", \"sequence\": LENGTH}}, or hf.max_length "
                   "beside the trainer's other arguments",
                   brief(positions), key, file),
       true});
}

void note_long_sequence(Origin& origin, const Json& positions, const Json& given) {
  const auto most = as_integer(positions), sequence = as_integer(given);
  if (most && sequence && *sequence > *most)
    origin.note(FindingKind::assumed, "model.sequence",
                fmt::format("{}: longer than the {} positions that the model's config allows",
                            *sequence, *most));
}

// A size that is absent may be the default of its class, which transformers leaves out when it
// saves a config, or a name that was mistyped.
void note_absent_sizes(Origin& origin, const ModelConfig& c, const std::string& type) {
  for (const auto& [key, value] : c.defaulted())
    for (const std::string_view size :
         {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
          "vocab_size", "n_embd", "n_layer", "n_head"})
      if (key == size)
        origin.note(
            FindingKind::assumed, "model",
            fmt::format("{} is not in {}: {}, the default of type {}", key, c.path(), value, type));
}

}  // namespace

Json model_from_config(Origin& origin, const std::string& path, const Json& section) {
  const std::string file = file_at(path, "config.json");
  const ModelConfig whole(file, read_json_file(file, JsonRules::deck));
  if (whole.text("model_type").empty())
    throw DeckError(
        fmt::format("{}: model_type: missing: a Hugging Face model config names its "
                    "type: give \"llama\", for example",
                    file));
  const ModelConfig c = text_part(origin, whole);
  const std::string type =
      c.text("model_type").empty() ? whole.text("model_type") : c.text("model_type");
  const ModelType* row = model_type_named(type);
  if (row == nullptr) refuse_type(c, type);
  refuse_common(c);
  note_values(origin, c);
  Json model = decoder_section(c, *row);
  if (!model.contains("moe")) refuse_experts(c);
  if (model.contains("moe") && model["moe"].is_null()) model.erase("moe");  // no layer has experts
  note_absent_sizes(origin, c, type);
  if (!section.contains("sequence"))
    assume_sequence(origin, c, fs::path(path).filename().string(), model["sequence"]);
  else
    note_long_sequence(origin, model["sequence"], section["sequence"]);
  if (const auto family = section.find("family");
      family != section.end() && *family != model.at("family"))
    origin.refuse("model.family", *family,
                  fmt::format("model.config describes a decoder, which is of family {}: remove "
                              "one of the two",
                              model.at("family").dump()));
  for (const auto& item : section.items())
    if (item.key() != "config") model[item.key()] = item.value();
  for (const auto& item : model.items())
    if (!section.contains(item.key())) {
      const std::string key = join_key("model", item.key());
      origin.stands_at(key, fmt::format("{}, as {}", file, key));
    }
  if (model.contains("fit")) model.erase("layers");
  return model;
}

namespace {

// Keys that change what is trained in a way that the section cannot say, unless they are null,
// false or empty.
struct OtherMethod {
  std::string_view key, what;
};
constexpr OtherMethod other_methods[] = {
    {"exclude_modules",
     "names that target_modules does not mean: give a pattern that leaves them "
     "out in target_modules"},
    {"layers_pattern", "a list of layers of another name"},
    {"layer_replication", "layers that are copied"},
    {"target_parameters", "factors of parameters that are no products, such as experts"},
    {"trainable_token_indices", "rows of the embedding that are trained"},
    {"megatron_config", "Megatron's parallel layers"},
    {"use_dora", "magnitudes of weights (DoRA)"},
    {"use_qalora", "pooled inputs (QALoRA)"},
    {"use_bdlora", "block-diagonal factors"},
    {"lora_bias", "biases of the factors"},
    {"alora_invocation_tokens", "factors that act on some tokens only"},
    {"arrow_config", "several adapters with a router"},
    {"kasa_config", "another kind of factors"},
    {"velora_config", "compressed inputs"},
    {"monteclora_config", "random factors"},
};

// Keys that the section is made from, and those that say where an adapter comes from, or how it is
// initialised.
constexpr std::array lora_keys{"r",
                               "lora_alpha",
                               "use_rslora",
                               "target_modules",
                               "layers_to_transform",
                               "bias",
                               "lora_dropout",
                               "init_lora_weights",
                               "rank_pattern",
                               "alpha_pattern",
                               "modules_to_save",
                               "task_type",
                               "peft_type",
                               "auto_mapping",
                               "peft_version",
                               "revision",
                               "inference_mode",
                               "base_model_name_or_path",
                               "fan_in_fan_out",
                               "megatron_core",
                               "qalora_group_size",
                               "runtime_config",
                               "ensure_weight_tying",
                               "loftq_config",
                               "eva_config",
                               "corda_config",
                               "lora_ga_config"};

bool says_nothing(const Json& value) {
  return value.is_null() || value == false || value == "" ||
         (value.is_structured() && value.empty());
}

void check_lora_keys(Origin& origin, const ModelConfig& c, const Json& all) {
  for (const auto& [key, value] : all.items()) {
    const auto* other = std::ranges::find(other_methods, key, &OtherMethod::key);
    if (other != std::end(other_methods)) {
      if (!says_nothing(value)) c.cannot(key, fmt::format("{}: remove the key", other->what));
    } else if (std::find(lora_keys.begin(), lora_keys.end(), key) == lora_keys.end() &&
               !says_nothing(value)) {
      c.refuse(key, value, "no key of PEFT's LoraConfig (0.21): remove it");
    }
  }
  if (const Json* init = c.find("init_lora_weights"); init != nullptr && *init != true)
    origin.note(FindingKind::no_effect, "model.adapter",
                fmt::format("{}: init_lora_weights = {}: ShardMark begins with PEFT's default, "
                            "uniform values of A and zeros of B",
                            c.path(), brief(*init)));
  if (const double dropout = c.real("lora_dropout", 0); dropout != 0)
    origin.note(FindingKind::no_effect, "model.adapter",
                fmt::format("{}: lora_dropout = {}: ShardMark drops nothing", c.path(), dropout));
}

std::string_view bias_named(const ModelConfig& c) {
  const std::string bias = c.text("bias");
  if (bias.empty() || bias == "none") return "none";
  if (bias == "all") return "all";
  if (bias != "lora_only") c.refuse("bias", bias, "must be \"none\", \"all\" or \"lora_only\"");
  return "adapted";
}

Json adapter_section(Origin& origin, const std::string& file) {
  const Json all = read_json_file(file, JsonRules::deck);
  const ModelConfig c(file, all);
  const std::string type = c.text("peft_type");
  if (type != "LORA")
    c.refuse("peft_type", type,
             "not modelled: \"LORA\" is: remove model.adapter, or set it to \"none\"");
  check_lora_keys(origin, c, all);
  const std::int64_t rank = c.size("r", 8);
  const double alpha = c.real("lora_alpha", 8);
  if (!(alpha > 0)) c.refuse("lora_alpha", alpha, "must be above 0");
  Json section = {{"rank", rank}, {"alpha", alpha}, {"bias", bias_named(c)}};
  if (c.flag("use_rslora")) section["use_rslora"] = true;
  for (const char* key : {"rank_pattern", "alpha_pattern", "modules_to_save"})
    if (const Json* given = c.find(key); given != nullptr && !says_nothing(*given)) {
      section[key] = *given;
      origin.stands_at(join_key("model.adapter", key), fmt::format("{}: {}", file, key));
    }
  if (section.contains("modules_to_save") && c.flag("ensure_weight_tying"))
    c.cannot("ensure_weight_tying", "copies that share a weight: remove the key");
  const Json* targets = c.find("target_modules");
  if (targets == nullptr)
    throw DeckError(fmt::format(
        "{}: target_modules: missing: PEFT takes a list by model_type: give the names, for "
        "example [\"q_proj\", \"v_proj\"]",
        file));
  section["targets"] = *targets;
  origin.stands_at("model.adapter.targets", file + ": target_modules");
  if (const Json* layers = c.find("layers_to_transform"); layers != nullptr) {
    section["layers"] = layers->is_array() ? *layers : Json::array({*layers});
    origin.stands_at("model.adapter.layers", file + ": layers_to_transform");
  }
  return section;
}

}  // namespace

void translate_adapter(Origin& origin, const std::string& config, Json& model) {
  const auto given = model.find("adapter");
  std::error_code ignored;
  if (given == model.end()) {
    if (config.empty()) return;
    const bool folder = fs::is_directory(config, ignored);
    const std::string file =
        ((folder ? fs::path(config) : fs::path(config).parent_path()) / "adapter_config.json")
            .string();
    if (!fs::exists(file, ignored)) return;
    model["adapter"] = adapter_section(origin, file);
    origin.note(FindingKind::assumed, "model.adapter",
                fmt::format("{}, which lies beside the model's config: --set model.adapter=none "
                            "trains the model itself",
                            file));
    return;
  }
  if (*given == "none") {
    model.erase("adapter");
  } else if (given->is_string()) {
    *given = adapter_section(
        origin, file_at(origin.resolve(given->get<std::string>()), "adapter_config.json"));
  }
  if (model.contains("adapter") && model.contains("family") && model["family"] != "decoder")
    origin.refuse("model.family", model["family"],
                  "adapters need a model of family \"decoder\": name one, with \"like\", or a "
                  "model's config");
}

}  // namespace shardmark
