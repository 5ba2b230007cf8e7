// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <filesystem>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/hf/model_config.hpp>
#include <io/keys/key_reader.hpp>

namespace shardmark {
namespace {

// One model config, read key by key.
class ModelConfig {
 public:
  ModelConfig(std::string path, Json json) : path_(std::move(path)), json_(std::move(json)) {}

  [[noreturn]] void refuse(std::string_view key, const Json& value, std::string_view what) const {
    throw DeckError(fmt::format("{}: {} = {}: {}", path_, key, brief(value), what));
  }
  [[noreturn]] void cannot(std::string_view key, std::string_view what) const {
    refuse(key, *find(key), fmt::format("not modelled: {}", what));
  }

  /// Returns the value of a key; nothing if it is absent or null.
  const Json* find(std::string_view key) const {
    const auto it = json_.find(std::string(key));
    return it == json_.end() || it->is_null() ? nullptr : &*it;
  }
  bool has(std::string_view key) const { return json_.contains(std::string(key)); }
  bool flag(std::string_view key, bool fallback = false) const {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (!value->is_boolean()) refuse(key, *value, "must be true or false");
    return *value == true;
  }
  std::string text(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr) return {};
    if (!value->is_string()) refuse(key, *value, "must be text");
    return value->get<std::string>();
  }
  /// Reads a size by its own name or, where that is absent, by the common one.
  std::int64_t size(std::string_view key, std::int64_t fallback,
                    std::string_view common = "") const {
    const std::string_view name = find(key) || common.empty() ? key : common;
    const Json* value = find(name);
    if (value == nullptr) {
      defaulted_.emplace_back(key, fallback);
      return fallback;
    }
    const auto size = as_integer(*value);
    if (!size || *size < 1 || *size > 2147483647)
      refuse(name, *value, "must be an integer from 1 to 2147483647");
    return *size;
  }
  const std::string& path() const { return path_; }
  /// The sizes that were read and are absent, with the values that stand for them.
  const std::vector<std::pair<std::string, std::int64_t>>& defaulted() const { return defaulted_; }

 private:
  std::string path_;
  Json json_;
  mutable std::vector<std::pair<std::string, std::int64_t>> defaulted_;
};

// The defaults of the config classes, which leave out what equals them.
struct Defaults {
  std::string_view type;
  std::int64_t vocab, ffn, kv_heads, sequence, window;  // kv_heads, window 0: none
};
constexpr std::array llama_like{Defaults{"llama", 32000, 11008, 0, 2048, 0},
                                Defaults{"mistral", 32000, 14336, 8, 131072, 4096},
                                Defaults{"qwen2", 151936, 22016, 32, 32768, 4096}};

void refuse_experts(const ModelConfig& c) {
  for (const char* key :
       {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"})
    if (const Json* experts = c.find(key); experts != nullptr && *experts != 0)
      c.cannot(key,
               "its feed-forward layers have experts, and those of ShardMark's families have "
               "none");
}

[[noreturn]] void refuse_type(const ModelConfig& c, const std::string& type) {
  const bool experts = type.find("moe") != std::string::npos || type == "mixtral" ||
                       type == "dbrx" || type == "deepseek_v2" || type == "deepseek_v3" ||
                       type == "gpt_oss" || type == "llama4";
  c.cannot("model_type",
           fmt::format(
               "{}gpt2, llama, mistral and qwen2 can be expressed: list its modules in a model of "
               "family \"list\" to plan it",
               experts ? "it has experts; " : ""));
}

void refuse_common(const ModelConfig& c) {
  refuse_experts(c);
  if (c.find("quantization_config"))
    c.cannot("quantization_config", "quantized weights are not trained: remove the section");
  if (c.flag("is_encoder_decoder"))
    c.cannot("is_encoder_decoder", "an encoder and a decoder, not one stack of blocks");
  if (c.flag("add_cross_attention"))
    c.cannot("add_cross_attention", "attention to a second sequence");
}

void note_values(Origin& origin, const ModelConfig& c, const char* activation,
                 std::initializer_list<std::string_view> same) {
  const std::string given = c.text(activation);
  if (!given.empty() && std::find(same.begin(), same.end(), given) == same.end())
    origin.note(FindingKind::warning, "model",
                fmt::format("{}: {} = \"{}\": sizes and traffic are the same, but ShardMark "
                            "computes \"{}\"",
                            c.path(), activation, given, *same.begin()));
  for (const char* key : {"resid_pdrop", "embd_pdrop", "attn_pdrop", "attention_dropout"})
    if (const Json* part = c.find(key); part != nullptr && part->is_number() && *part != 0)
      origin.note(FindingKind::no_effect, "model",
                  fmt::format("{}: {} = {}: ShardMark drops nothing", c.path(), key, brief(*part)));
}

Json gpt2_model(Origin& origin, const ModelConfig& c) {
  const std::int64_t hidden = c.size("n_embd", 768, "hidden_size");
  if (const std::int64_t inner = c.size("n_inner", 4 * hidden); inner != 4 * hidden)
    c.cannot("n_inner", fmt::format("the feed-forward layer of family \"gpt2\" has 4 x n_embd = {} "
                                    "channels",
                                    4 * hidden));
  note_values(origin, c, "activation_function", {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"});
  return {{"family", "gpt2"},
          {"layers", c.size("n_layer", 12, "num_hidden_layers")},
          {"hidden", hidden},
          {"heads", c.size("n_head", 12, "num_attention_heads")},
          {"sequence", c.size("n_positions", 1024, "max_position_embeddings")},
          {"vocab", c.size("vocab_size", 50257)},
          {"tied_head", c.flag("tie_word_embeddings", true)}};
}

void refuse_biases(const ModelConfig& c) {
  for (const char* key : {"attention_bias", "mlp_bias", "qkv_bias", "use_bias"})
    if (c.flag(key))
      c.cannot(key, "family \"llama\" has biases in q, k and v at most, and none for this type");
}

// A window that is at least as long as the sequence hides nothing.
void refuse_window(const ModelConfig& c, const Defaults& own, std::int64_t sequence) {
  const Json* layers = c.find("layer_types");
  const bool some = layers != nullptr && layers->is_array() &&
                    std::find(layers->begin(), layers->end(), "sliding_attention") != layers->end();
  const bool uses = own.type == "mistral" || some || c.flag("use_sliding_window");
  // Mistral's own default counts only where the key is absent; null means no window.
  const Json* window = c.find("sliding_window");
  const bool absent = !c.has("sliding_window");
  if (!uses || (window == nullptr && !(absent && own.window > 0))) return;
  const std::int64_t length = c.size("sliding_window", own.window);
  if (length >= sequence) return;
  const std::string what = fmt::format(
      "not modelled: attention in a sliding window of {} positions, below the sequence "
      "of {}: give \"model\": {{\"config\": \"{}\", \"sequence\": {}}} or less, where "
      "the window hides nothing",
      length, sequence, std::filesystem::path(c.path()).filename().string(), length);
  c.refuse("sliding_window", window ? *window : Json(length), what);
}

Json llama_model(Origin& origin, const ModelConfig& c, const Defaults& own, const Json& section) {
  // The class of Qwen2 gives q, k and v biases whatever the config says, and nothing else.
  const bool qkv_bias = own.type == "qwen2";
  if (!qkv_bias) refuse_biases(c);
  const std::int64_t hidden = c.size("hidden_size", 4096);
  const std::int64_t heads = c.size("num_attention_heads", 32);
  const bool nulled = c.has("num_key_value_heads") && !c.find("num_key_value_heads");
  const std::int64_t kv =
      c.size("num_key_value_heads", own.kv_heads == 0 || nulled ? heads : own.kv_heads);
  if (c.find("head_dim") && c.size("head_dim", 0) * heads != hidden)
    c.cannot("head_dim", fmt::format("{} heads of this size are not hidden_size = {} channels, "
                                     "which family \"llama\" needs",
                                     heads, hidden));
  const std::int64_t positions = c.size("max_position_embeddings", own.sequence);
  const auto given = section.contains("sequence") ? as_integer(section["sequence"]) : std::nullopt;
  refuse_window(c, own, given.value_or(positions));
  note_values(origin, c, "hidden_act", {"silu", "swish"});
  Json model = {{"family", "llama"},
                {"layers", c.size("num_hidden_layers", 32)},
                {"hidden", hidden},
                {"heads", heads},
                {"kv_heads", kv},
                {"ffn", c.size("intermediate_size", own.ffn)},
                {"sequence", positions},
                {"vocab", c.size("vocab_size", own.vocab)},
                {"tied_head", c.flag("tie_word_embeddings")}};
  if (qkv_bias) model["qkv_bias"] = true;
  return model;
}

// The longest sequence that a model allows says little about the one that it is trained with.
void assume_sequence(Origin& origin, const ModelConfig& c, const std::string& file,
                     const Json& positions) {
  const char* key = c.find("n_positions") ? "n_positions" : "max_position_embeddings";
  origin.note(
      FindingKind::assumed, "model.sequence",
      fmt::format("{}: {} of the model's config, which is an upper bound and not the "
                  "length that one trains with: give --set model.sequence=LENGTH, "
                  "\"model\": {{\"config\": \"{}\", \"sequence\": LENGTH}}, or hf.max_length "
                  "beside the trainer's other arguments",
                  brief(positions), key, file));
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
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string file =
      fs::is_directory(path, ignored) ? (fs::path(path) / "config.json").string() : path;
  const ModelConfig c(file, read_json_file(file, JsonRules::deck));
  const std::string type = c.text("model_type");
  if (type.empty())
    throw DeckError(
        fmt::format("{}: model_type: missing: a Hugging Face model config names its "
                    "type: give \"gpt2\", \"llama\", \"mistral\" or \"qwen2\"",
                    file));
  Json model;
  const auto* own = std::find_if(llama_like.begin(), llama_like.end(),
                                 [&](const Defaults& d) { return d.type == type; });
  if (own == llama_like.end() && type != "gpt2") refuse_type(c, type);
  refuse_common(c);
  model = type == "gpt2" ? gpt2_model(origin, c) : llama_model(origin, c, *own, section);
  note_absent_sizes(origin, c, type);
  if (!section.contains("sequence"))
    assume_sequence(origin, c, fs::path(path).filename().string(), model["sequence"]);
  else
    note_long_sequence(origin, model["sequence"], section["sequence"]);
  for (const auto& item : section.items())
    if (item.key() != "config") model[item.key()] = item.value();
  if (model.contains("fit")) model.erase("layers");
  return model;
}

}  // namespace shardmark
