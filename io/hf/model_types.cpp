// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <io/hf/model_types.hpp>

namespace shardmark {
namespace {

using Plan = TensorPlan;

// clang-format off
constexpr ModelType types[] = {
    // name           hidden   ffn layers heads kv positions vocab  tied   padding        autotp          class
    {"gpt2",             768,     0, 12, 12,  0,   1024,  50257,  true, no_padding,   Plan::none,      describe_gpt2},
    {"llama",           4096, 11008, 32, 32,  0,   2048,  32000, false, null_padding, Plan::planned,   describe_llama},
    {"mistral",         4096, 14336, 32, 32,  8, 131072,  32000, false, null_padding, Plan::planned,   describe_mistral},
    {"qwen2",           4096, 22016, 32, 32, 32,  32768, 151936, false, null_padding, Plan::planned,   describe_qwen2},
    {"qwen2_5_vl",      8192, 29568, 80, 64,  8,  32768, 152064, false, null_padding, Plan::planned,   describe_qwen2},
    {"qwen2_5_vl_text", 8192, 29568, 80, 64,  8,  32768, 152064, false, null_padding, Plan::planned,   describe_qwen2},
    {"qwen3",           4096, 22016, 32, 32, 32,  32768, 151936, false, null_padding, Plan::planned,   describe_qwen3},
    {"gemma",           3072, 24576, 28, 16, 16,   8192, 256000,  true, 0,            Plan::planned,   describe_gemma},
    {"gemma2",          2304,  9216, 26,  8,  4,   8192, 256000,  true, 0,            Plan::planned,   describe_gemma2},
    {"gemma3_text",     2304,  9216, 26,  8,  4, 131072, 262208,  true, 0,            Plan::planned,   describe_gemma3},
    {"phi",             2048,  8192, 24, 32,  0,   2048,  51200, false, null_padding, Plan::planned,   describe_phi},
    {"phi3",            3072,  8192, 32, 32,  0,   4096,  32064, false, 32000,        Plan::none,      describe_phi3},
    {"olmo",            4096, 11008, 32, 32,  0,   2048,  50304, false, 1,            Plan::planned,   describe_olmo},
    {"olmo2",           4096, 11008, 32, 32,  0,   2048,  50304, false, 1,            Plan::none,      describe_olmo2},
    {"smollm3",         2048, 11008, 36, 16,  4,  32768, 128256,  true, 128004,       Plan::planned,   describe_smollm3},
    {"gpt_neox",        6144, 24576, 44, 64,  0,   2048,  50432, false, no_padding,   Plan::planned,   describe_gpt_neox},
    {"gptj",            4096,     0, 28, 16,  0,   2048,  50400, false, no_padding,   Plan::inferred,  describe_gptj},
    {"opt",              768,  3072, 12, 12,  0,   2048,  50272,  true, 1,            Plan::inferred,  describe_opt},
    {"bloom",             64,     0,  2,  8,  0,   2048, 250880,  true, no_padding,   Plan::none,      describe_bloom},
    {"falcon",          4544,     0, 32, 71, 71,   2048,  65024,  true, no_padding,   Plan::none,      describe_falcon},
    {"starcoder2",      3072, 12288, 30, 24,  2,   4096,  49152,  true, null_padding, Plan::planned,   describe_starcoder2},
    {"stablelm",        2560,  6912, 32, 32, 32,   4096,  50304, false, null_padding, Plan::inferred,  describe_stablelm},
    {"granite",         4096, 11008, 32, 32,  0,   2048,  32000, false, null_padding, Plan::planned,   describe_granite},
    {"glm4",            4096, 13696, 40, 32,  2, 131072, 151552, false, 151329,       Plan::none,      describe_glm4},
    {"mixtral",         4096, 14336, 32, 32,  8, 131072,  32000, false, null_padding, Plan::planned,   describe_mixtral},
    {"qwen2_moe",       2048,  5632, 24, 16, 16,  32768, 151936, false, null_padding, Plan::planned,   describe_qwen2_moe},
    {"qwen3_moe",       2048,  6144, 24, 32,  4,  32768, 151936, false, null_padding, Plan::planned,   describe_qwen3_moe},
    {"olmoe",           2048,  2048, 16, 16,  0,   4096,  50304, false, 1,            Plan::none,      describe_olmoe},
    {"gpt_oss",         2880,  2880, 36, 64,  8, 131072, 201088, false, null_padding, Plan::planned,   describe_gpt_oss},
    {"deepseek_v3",     7168, 18432, 61,128,128,   4096, 129280, false, null_padding, Plan::planned,   describe_deepseek_v3},
    {"cohere",          8192, 22528, 40, 64,  0,   8192, 256000,  true, 0,            Plan::planned,   describe_cohere},
};
// clang-format on

// The first of the names that the config has; the first name if it has none.
std::string_view name_of(const ModelConfig& c, std::initializer_list<std::string_view> names) {
  const auto* given = std::find_if(names.begin(), names.end(),
                                   [&](std::string_view n) { return c.find(n) != nullptr; });
  return given == names.end() ? *names.begin() : *given;
}

std::int64_t kv_heads(const ModelConfig& c, const ModelType& type, std::int64_t heads) {
  const std::string_view name = name_of(c, {"num_key_value_heads", "num_kv_heads"});
  const bool nulled = c.has(name) && c.find(name) == nullptr;
  return c.size(name, type.kv_heads == 0 || nulled ? heads : type.kv_heads);
}

// A negative index counts from the end, as PyTorch's does.
std::int64_t padding_of(const ModelConfig& c, const ModelType& type, std::int64_t vocab) {
  if (type.padding == no_padding) return -1;
  const Json* given = c.find("pad_token_id");
  const bool nulled = c.has("pad_token_id") && given == nullptr;
  if (nulled || (given == nullptr && type.padding == null_padding)) return -1;
  const auto token = given != nullptr ? as_integer(*given) : type.padding;
  if (!token || *token >= vocab || *token < -vocab)
    c.refuse("pad_token_id", given != nullptr ? *given : Json(type.padding),
             fmt::format("must be a token, below vocab_size = {}, or null", vocab));
  return *token < 0 ? vocab + *token : *token;
}

Json yarn_scaling(const ModelConfig& rope, double factor, std::int64_t original) {
  const double one = rope.real("mscale", 0), all = rope.real("mscale_all_dim", 0);
  const double usual = one != 0 && all != 0 ? yarn_length(factor, one) / yarn_length(factor, all)
                                            : yarn_length(factor, 1);
  return {{"kind", "yarn"},
          {"factor", factor},
          {"original_positions", rope.size("original_max_position_embeddings", original)},
          {"beta_fast", rope.real("beta_fast", 32)},
          {"beta_slow", rope.real("beta_slow", 1)},
          {"truncate", rope.flag("truncate", true)},
          {"attention_factor", rope.real("attention_factor", usual)}};
}

Json rotary_scaling(const ModelConfig& c, const ModelConfig& rope, std::int64_t positions) {
  std::string kind = rope.text("rope_type");
  if (kind.empty()) kind = rope.text("type");
  if (kind.empty() || kind == "default" || kind == "mrope") return {};
  const double factor = rope.real("factor", 1);
  if (kind == "linear") return {{"kind", "linear"}, {"factor", factor}};
  if (kind == "yarn") return yarn_scaling(rope, factor, positions);
  if (kind == "llama3")
    return {{"kind", "llama3"},
            {"factor", factor},
            {"original_positions", rope.size("original_max_position_embeddings", positions)},
            {"low_freq_factor", rope.real("low_freq_factor", 1)},
            {"high_freq_factor", rope.real("high_freq_factor", 4)}};
  c.refuse("rope_type", kind,
           "not modelled: default, linear, llama3 and yarn are: sizes do not depend on it, so "
           "remove it to plan");
}

}  // namespace

double yarn_length(double factor, double multiplier) {
  return factor <= 1 ? 1 : 0.1 * multiplier * std::log(factor) + 1;
}

std::span<const ModelType> model_types() {
  return types;
}

const ModelType* model_type_named(std::string_view name) {
  const auto* row = std::ranges::find(types, name, &ModelType::name);
  return row == std::end(types) ? nullptr : row;
}

std::optional<std::string_view> activation_named(std::string_view name) {
  for (const std::string_view same : {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"})
    if (name == same) return "gelu_tanh";
  if (name == "gelu" || name == "relu" || name == "silu") return name;
  if (name == "swish") return "silu";
  return std::nullopt;
}

Json modules_of(std::string_view layers, std::string_view names) {
  Json modules = Json::array();
  while (!names.empty()) {
    const std::size_t end = std::min(names.find(' '), names.size());
    const std::string_view item = names.substr(0, end);
    names.remove_prefix(std::min(end + 1, names.size()));
    const std::size_t colon = item.find(':');
    if (item.empty()) continue;
    std::string name(item.substr(0, colon));
    if (name == "~") name = fmt::format("{}.*", layers);
    if (name.starts_with('~')) name = fmt::format("{}.*.{}", layers, name.substr(1));
    std::string_view role = item.substr(colon + 1);
    Json module = {name};
    if (const std::size_t at = role.find('@'); at != std::string_view::npos) {
      module.push_back(role.substr(0, at));
      role.remove_prefix(at + 1);
    }
    module.push_back(role);
    modules.push_back(std::move(module));
  }
  return modules;
}

std::string_view dropout(const ModelConfig& c, std::string_view key, double usual) {
  return c.real(key, usual) > 0 ? "function" : "identity";
}
std::string dropout_around(std::string_view module, const ModelConfig& c, std::string_view key,
                           double usual) {
  return c.real(key, usual) > 0 ? fmt::format("{}:function@mlp_proj", module) : std::string{};
}

Json llama_modules(const LlamaNames& n) {
  return modules_of("model.layers",
                    fmt::format("model.embed_tokens:token_embedding {} {} {} {} {}:final_norm "
                                "{} lm_head:head",
                                n.projections, n.mlp, n.norms, n.dropouts, n.last_norm, n.angles));
}

void describe_rotary(const ModelConfig& c, Json& model, double base, double part,
                     const char* inner) {
  const std::string_view name = name_of(c, {"rope_scaling", "rope_parameters"});
  const Json* given = c.find(name);
  ModelConfig rope(c.path(), Json::object());
  if (given != nullptr && given->is_object()) rope = c.part(name);
  if (*inner != '\0' && rope.find(inner) != nullptr) rope = rope.part(inner);
  const double own_part = c.real(name_of(c, {"partial_rotary_factor", "rotary_pct"}), part);
  const double theta = c.real(name_of(c, {"rope_theta", "rotary_emb_base"}), base);
  Json& positions = model["positions"];
  positions["kind"] = "rotary";
  positions["base"] = rope.real("rope_theta", theta);
  positions["part"] = rope.real("partial_rotary_factor", own_part);
  Json scaling = rotary_scaling(c, rope, model["sequence"].get<std::int64_t>());
  if (!scaling.is_null()) positions["scaling"] = std::move(scaling);
}

void describe_window(const ModelConfig& c, Json& model, const Json& usual, const Json& windowed) {
  const Json length = c.find("sliding_window") ? *c.find("sliding_window") : usual;
  if (length.is_null()) return;
  const auto keys = as_integer(length);
  if (!keys || *keys < 1)
    c.refuse("sliding_window", length, "must be an integer, at least 1, or null");
  Json layers = windowed;
  if (const Json* types_of_layers = c.find("layer_types"); types_of_layers != nullptr) {
    if (!types_of_layers->is_array())
      c.refuse("layer_types", *types_of_layers, "must be a list, one type for each layer");
    layers = Json::array();
    for (const Json& type : *types_of_layers) layers.push_back(type == "sliding_attention");
  }
  const bool none =
      layers.is_array() && std::find(layers.begin(), layers.end(), true) == layers.end();
  if (none) return;
  model["attention"]["window"] = *keys;
  if (layers.is_array()) model["attention"]["windowed"] = layers;
}

Json decoder_section(const ModelConfig& c, const ModelType& type) {
  const auto sized = [&](std::initializer_list<std::string_view> names, std::int64_t fallback) {
    return c.size(name_of(c, names), fallback);
  };
  const std::int64_t hidden = sized({"hidden_size", "n_embd", "n_embed"}, type.hidden);
  const std::int64_t heads = sized({"num_attention_heads", "n_head"}, type.heads);
  const std::int64_t vocab = c.size("vocab_size", type.vocab);
  Json model = {
      {"family", "decoder"},
      {"layers", c.layers(name_of(c, {"num_hidden_layers", "n_layer"}), type.layers)},
      {"hidden", hidden},
      {"heads", heads},
      {"kv_heads", kv_heads(c, type, heads)},
      {"ffn", sized({"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size"},
                    type.ffn > 0 ? type.ffn : 4 * hidden)},
      {"sequence", sized({"max_position_embeddings", "n_positions", "seq_length"}, type.positions)},
      {"vocab", vocab},
      {"tied_head", c.flag("tie_word_embeddings", type.tied)},
      {"init_std", c.real(name_of(c, {"initializer_range", "init_std"}), 0.02)},
      {"autotp", to_string(type.autotp)},
      {"ends", {{"padding_token", padding_of(c, type, vocab)}}}};
  if (c.find("head_dim") != nullptr) model["attention"]["head_dim"] = c.size("head_dim", 0);
  type.describe(c, model);
  const std::string_view key =
      name_of(c, {"hidden_activation", "hidden_act", "activation_function", "activation"});
  if (const auto given = activation_named(c.text(key))) model["mlp"]["activation"] = *given;
  return model;
}

}  // namespace shardmark
