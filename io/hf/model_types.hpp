// SPDX-License-Identifier: Apache-2.0
// The types of models that Hugging Face's transformers has, as descriptions of decoders: one row
// per `model_type`. Names of modules, their registration order and defaults are those of
// transformers 5.24. Only files in io/hf use this header.
#pragma once

#include <optional>
#include <span>

#include <io/hf/model_keys.hpp>

namespace shardmark {

/// Completes the section `model` by what a class of models does.
using Describe = void(const ModelConfig& config, Json& model);

/// One type: the defaults of its config class, and what its class of models does.
struct ModelType {
  std::string_view name;
  std::int64_t hidden, ffn, layers, heads;  // ffn 0: 4 x hidden
  std::int64_t kv_heads;                    // 0: as many as heads
  std::int64_t positions, vocab;
  bool tied;
  std::int64_t padding;  // pad_token_id; no_padding: the class ignores it
  TensorPlan autotp;     // of transformers 5.6, which AutoEP needs
  Describe* describe;
};
inline constexpr std::int64_t no_padding = -2, null_padding = -1;

std::span<const ModelType> model_types();
/// Returns the row of a type, or nullptr.
const ModelType* model_type_named(std::string_view name);

/// Returns the section `model`, of family `decoder`, that a config amounts to. Throws DeckError for
/// what the description cannot say.
Json decoder_section(const ModelConfig& config, const ModelType& type);

/// Returns the name that a description gives to an activation of transformers, or nothing if it has
/// no such activation.
std::optional<std::string_view> activation_named(std::string_view hugging_face);

/// Returns `modules` of a description from names and roles, "a.b:role c.d:role", and for modules
/// without parameters "e.f:kind@role", once for each call. A name that begins with `~` is inside of
/// `layers`, which has no further `*`, and "~" alone is a layer itself.
Json modules_of(std::string_view layers, std::string_view names);

/// Returns the kind of a module of dropout, whose probability is at a key of the config. With a
/// probability of 0 it saves nothing for its backward.
std::string_view dropout(const ModelConfig& config, std::string_view key, double usual = 0);
/// Returns the item of `modules_of` for dropout that a module around the end of the MLP does
/// itself; nothing with a probability of 0.
std::string dropout_around(std::string_view module, const ModelConfig& config, std::string_view key,
                           double usual = 0);

/// The factor of cosines and sines under YaRN, whose own default has a multiplier of 1.
double yarn_length(double factor, double multiplier);

/// Sets `positions` to rotary ones as the config scales them. `inner` is the layer type in configs
/// that have parameters for each.
void describe_rotary(const ModelConfig& config, Json& model, double base, double part = 1,
                     const char* inner = "");
/// Sets the window: of all layers, or of those that `windowed` says unless the config does. `usual`
/// is the length, null for no window, if the config states none.
void describe_window(const ModelConfig& config, Json& model, const Json& usual = nullptr,
                     const Json& windowed = true);

/// The rows in model_types_gpt.cpp: models with LayerNorm.
Describe describe_gpt2, describe_gpt_neox, describe_gptj, describe_opt, describe_bloom,
    describe_falcon, describe_phi, describe_starcoder2, describe_stablelm, describe_cohere,
    describe_olmo;
/// The rows in model_types_llama.cpp: models with RMSNorm.
Describe describe_llama, describe_mistral, describe_qwen2, describe_qwen3, describe_gemma,
    describe_gemma2, describe_gemma3, describe_phi3, describe_olmo2, describe_smollm3,
    describe_granite, describe_glm4;
/// The rows in model_types_moe.cpp: mixtures of experts.
Describe describe_mixtral, describe_qwen2_moe, describe_qwen3_moe, describe_olmoe,
    describe_deepseek_v3, describe_gpt_oss;

/// Sets whether all four projections of attention have biases.
void set_attention_biases(Json& model, bool biased);
/// Sets the biases of attention and of the MLP by a config; `attention` is the default.
void describe_biases(const ModelConfig& config, Json& model, bool attention = false);
/// Sets the epsilon of RMSNorm.
void describe_rms(const ModelConfig& config, Json& model, double eps = 1e-6);

/// The projections of attention with norms of q and k.
inline constexpr std::string_view normed_projections =
    "~self_attn.q_proj:q ~self_attn.k_proj:k ~self_attn.v_proj:v ~self_attn.o_proj:attn_proj "
    "~self_attn.q_norm:q_norm ~self_attn.k_norm:k_norm";

/// The modules of Llama, of which several types differ in one part.
struct LlamaNames {
  std::string_view projections =
      "~self_attn.q_proj:q ~self_attn.k_proj:k ~self_attn.v_proj:v ~self_attn.o_proj:attn_proj";
  std::string_view mlp =
      "~mlp.gate_proj:gate ~mlp.up_proj:up ~mlp.down_proj:mlp_proj ~mlp.act_fn:function@gate";
  std::string_view norms = "~input_layernorm:norm1 ~post_attention_layernorm:norm2";
  std::string_view last_norm = "model.norm";
  std::string_view dropouts = "";
  std::string_view angles = "model.rotary_emb:constant@token_embedding";
};
Json llama_modules(const LlamaNames& names = {});

}  // namespace shardmark
