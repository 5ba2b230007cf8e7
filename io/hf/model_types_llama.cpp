// SPDX-License-Identifier: Apache-2.0
// Types with RMSNorm. Each function says in what its class differs from a Llama.
#include <cmath>

#include <io/hf/model_types.hpp>

namespace shardmark {
namespace {

// The window of classes that have one for all layers from a certain one on, if they use it.
void describe_optional_window(const ModelConfig& c, Json& model) {
  if (!c.flag("use_sliding_window")) return;
  const auto layers = model["layers"].get<std::int64_t>();
  const std::int64_t first = c.size("max_window_layers", 28);
  Json windowed = Json::array();
  for (std::int64_t l = 0; l < layers; ++l) windowed.push_back(l >= first);
  describe_window(c, model, 4096, windowed);
}

constexpr std::string_view joined_mlp =
    "~mlp.gate_up_proj:fc ~mlp.down_proj:mlp_proj ~mlp.activation_fn:function@fc";
constexpr std::string_view four_norms =
    "~input_layernorm:norm1 ~post_attention_layernorm:post_norm1 "
    "~pre_feedforward_layernorm:norm2 ~post_feedforward_layernorm:post_norm2";

// What Gemma's generations share: weights from zero, GELU, a factor of the embedding.
void describe_gemma_ends(const ModelConfig& c, Json& model) {
  c.refuse_flag("use_bidirectional_attention", "attention to later tokens");
  describe_biases(c, model);
  describe_rms(c, model);
  model["norm"]["unit_offset"] = true;
  model["mlp"]["activation"] = "gelu_tanh";
  model["ends"]["embedding_factor"] = std::sqrt(model["hidden"].get<double>());
  model["attention"]["head_dim"] = c.size("head_dim", 256);
}

// The later generations: four norms, a scale of its own, windows, softcaps.
void describe_later_gemma(const ModelConfig& c, Json& model, double softcap, double logits_softcap,
                          std::int64_t period) {
  describe_gemma_ends(c, model);
  model["norm"]["place"] = "both";
  model["attention"]["scale"] = 1 / std::sqrt(c.real("query_pre_attn_scalar", 256));
  model["attention"]["softcap"] =
      c.has("attn_logit_softcapping") ? c.real("attn_logit_softcapping", 0) : softcap;
  model["ends"]["logits_softcap"] =
      c.has("final_logit_softcapping") ? c.real("final_logit_softcapping", 0) : logits_softcap;
  Json windowed = Json::array();
  for (std::int64_t l = 1; l <= period; ++l) windowed.push_back(l % period != 0);
  describe_window(c, model, 4096, windowed);
}

}  // namespace

void set_attention_biases(Json& model, bool biased) {
  model["attention"]["qkv_bias"] = biased;
  model["attention"]["bias"] = biased;
}

void describe_biases(const ModelConfig& c, Json& model, bool attention) {
  set_attention_biases(model, c.flag("attention_bias", attention));
  model["mlp"]["bias"] = c.flag("mlp_bias");
}

void describe_rms(const ModelConfig& c, Json& model, double eps) {
  model["norm"]["eps"] = c.real("rms_norm_eps", eps);
}

void describe_llama(const ModelConfig& c, Json& model) {
  describe_biases(c, model);
  describe_rms(c, model);
  describe_rotary(c, model, 10000);
  if (c.find("layer_types") != nullptr) describe_window(c, model);
  model["modules"] = llama_modules();
}

void describe_mistral(const ModelConfig& c, Json& model) {
  describe_rms(c, model);
  describe_rotary(c, model, 10000);
  // Mistral's own default counts only where the key is absent; null means no window.
  describe_window(c, model, c.has("sliding_window") ? Json() : Json(4096));
  model["modules"] = llama_modules();
}

void describe_qwen2(const ModelConfig& c, Json& model) {
  model["attention"]["qkv_bias"] = true;
  describe_rms(c, model);
  describe_rotary(c, model, 10000);
  describe_optional_window(c, model);
  model["modules"] = llama_modules();
}

void describe_qwen3(const ModelConfig& c, Json& model) {
  describe_biases(c, model);
  describe_rms(c, model);
  describe_rotary(c, model, 10000);
  describe_optional_window(c, model);
  model["attention"]["head_dim"] = c.size("head_dim", 128);
  model["norm"]["of_q_and_k"] = "head";
  model["modules"] = llama_modules({.projections = normed_projections});
}

void describe_gemma(const ModelConfig& c, Json& model) {
  describe_gemma_ends(c, model);
  describe_rotary(c, model, 10000);
  model["modules"] = llama_modules();
}

void describe_gemma2(const ModelConfig& c, Json& model) {
  describe_later_gemma(c, model, 50, 30, 2);
  describe_rotary(c, model, 10000);
  model["modules"] = llama_modules({.norms = four_norms});
}

void describe_gemma3(const ModelConfig& c, Json& model) {
  const std::int64_t period = c.layers(
      c.find("sliding_window_pattern") ? "sliding_window_pattern" : "_sliding_window_pattern", 6);
  describe_later_gemma(c, model, 0, 0, period);
  describe_rotary(c, model, 1e6, 1, "full_attention");
  Json local = {{"sequence", model["sequence"]}};
  describe_rotary(c, local, 10000, 1, "sliding_attention");
  const Json* parameters = c.find("rope_parameters");
  const bool nested = parameters != nullptr && parameters->contains("sliding_attention");
  model["positions"]["window_base"] =
      nested ? local["positions"]["base"] : Json(c.real("rope_local_base_freq", 10000));
  model["norm"]["of_q_and_k"] = "head";
  model["norm"]["q_and_k_last"] = true;
  // The angles of both kinds of layers are a module that is called twice.
  const Json windows = model["attention"].value("windowed", Json::array({false}));
  bool full = false, windowed = false;
  for (std::size_t l = 0; l < model["layers"].get<std::size_t>(); ++l)
    (windows[l % windows.size()] == true ? windowed : full) = true;
  const std::string twice = fmt::format("{0} {0}", LlamaNames{}.angles);
  model["modules"] = llama_modules({.projections = normed_projections,
                                    .norms = four_norms,
                                    .angles = full && windowed ? twice : LlamaNames{}.angles});
}

void describe_phi3(const ModelConfig& c, Json& model) {
  describe_rms(c, model, 1e-5);
  describe_rotary(c, model, 10000);
  describe_window(c, model);
  model["attention"]["qkv"] = "joined";
  model["mlp"]["joined"] = true;
  const std::string_view dropped = dropout(c, "resid_pdrop");
  const std::string dropouts = fmt::format(
      "~resid_attn_dropout:{}@attn_proj ~resid_mlp_dropout:{}@mlp_proj", dropped, dropped);
  model["modules"] =
      llama_modules({.projections = "~self_attn.o_proj:attn_proj ~self_attn.qkv_proj:qkv",
                     .mlp = joined_mlp,
                     .dropouts = dropouts});
}

void describe_olmo2(const ModelConfig& c, Json& model) {
  describe_biases(c, model);
  describe_rms(c, model, 1e-5);
  describe_rotary(c, model, 10000);
  model["norm"]["place"] = "after";
  model["norm"]["of_q_and_k"] = "all";
  model["modules"] = llama_modules(
      {.projections = normed_projections,
       .norms = "~post_attention_layernorm:post_norm1 ~post_feedforward_layernorm:post_norm2"});
}

void describe_smollm3(const ModelConfig& c, Json& model) {
  describe_biases(c, model);
  describe_rms(c, model);
  describe_rotary(c, model, 2e6);
  const Json* rotary = c.find("no_rope_layers");  // despite its name, 1 means rotary positions
  const std::int64_t period = c.layers("no_rope_layer_interval", 4);
  Json rotates = Json::array();
  if (rotary != nullptr && rotary->is_array())
    for (const Json& layer : *rotary) rotates.push_back(layer != 0);
  else
    for (std::int64_t l = 1; l <= period; ++l) rotates.push_back(l % period != 0);
  model["positions"]["rotates"] = rotates;
  if (c.flag("use_sliding_window")) {
    Json windowed = Json::array();
    for (const Json& turns : rotates) windowed.push_back(turns == false);
    describe_window(c, model, nullptr, windowed);
  }
  model["modules"] = llama_modules();
}

void describe_granite(const ModelConfig& c, Json& model) {
  describe_biases(c, model);
  describe_rms(c, model);
  describe_rotary(c, model, 10000);
  model["attention"]["scale"] = c.real("attention_multiplier", 1);
  model["block"]["residual_factor"] = c.real("residual_multiplier", 1);
  model["ends"]["embedding_factor"] = c.real("embedding_multiplier", 1);
  model["ends"]["logits_factor"] = 1 / c.real("logits_scaling", 1);
  model["modules"] = llama_modules();
}

void describe_glm4(const ModelConfig& c, Json& model) {
  describe_rms(c, model, 1.5625e-7);
  describe_rotary(c, model, 10000, 0.5);
  model["positions"]["neighbours"] = true;
  model["norm"]["place"] = "both";
  model["attention"]["qkv_bias"] = c.flag("attention_bias", true);
  model["attention"]["head_dim"] = c.size("head_dim", 128);
  model["mlp"]["joined"] = true;
  model["modules"] = llama_modules(
      {.mlp = joined_mlp,
       .norms = "~input_layernorm:norm1 ~post_attention_layernorm:norm2 "
                "~post_self_attn_layernorm:post_norm1 ~post_mlp_layernorm:post_norm2"});
}

}  // namespace shardmark
