// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts. Each function says in what its class differs from a Llama.
#include <algorithm>
#include <cmath>

#include <io/hf/model_types.hpp>

namespace shardmark {
namespace {

constexpr std::string_view router_first =
    "~mlp.gate:router ~mlp.experts:experts ~mlp.experts.act_fn:function@router";
constexpr std::string_view dense_mlp = LlamaNames{}.mlp;

std::int64_t experts_of(const ModelConfig& c, std::int64_t fallback) {
  return c.size(c.find("num_local_experts") ? "num_local_experts" : "num_experts", fallback);
}

// The loss that balances experts is part of the loss only if a config asks for the routers' logits.
void describe_experts(const ModelConfig& c, Json& model, std::int64_t experts,
                      std::int64_t per_token, double balance_loss = 0.001) {
  model["moe"] = {{"experts", experts_of(c, experts)},
                  {"per_token", c.size("num_experts_per_tok", per_token)}};
  if (c.flag("output_router_logits"))
    model["moe"]["balance_loss"] = c.real("router_aux_loss_coef", balance_loss);
}

// Sets which layers have experts, by their numbers. A model in which none has them is dense.
template<class Has>
void set_expert_layers(Json& model, const Has& has_experts) {
  Json layers = Json::array();
  for (std::int64_t l = 0; l < model["layers"].get<std::int64_t>(); ++l)
    layers.push_back(has_experts(l));
  if (std::find(layers.begin(), layers.end(), true) == layers.end())
    model["moe"] = nullptr;
  else if (std::find(layers.begin(), layers.end(), false) != layers.end())
    model["moe"]["layers"] = layers;
}

// Which layers have experts, in the classes of Qwen: every so many, without those that are listed.
void describe_sparse_layers(const ModelConfig& c, Json& model) {
  const std::int64_t step = c.size("decoder_sparse_step", 1);
  const Json* dense = c.find("mlp_only_layers");
  if (dense != nullptr && !dense->is_array())
    c.refuse("mlp_only_layers", *dense, "must be a list of numbers of layers");
  set_expert_layers(model, [&](std::int64_t l) {
    return (l + 1) % step == 0 &&
           (dense == nullptr || std::find(dense->begin(), dense->end(), l) == dense->end());
  });
}

// Layers before a certain one are dense.
void dense_first_layers(const ModelConfig& c, Json& model) {
  const Json* given = c.find("first_k_dense_replace");
  const auto first = given != nullptr ? as_integer(*given) : 3;
  if (!first || *first < 0)
    c.refuse("first_k_dense_replace", *given, "must be a number of layers, at least 0");
  set_expert_layers(model, [&](std::int64_t l) { return l >= *first; });
}

// Scaled rotary positions change the scale of latent attention.
void describe_latent_scale(const ModelConfig& c, Json& model, const Json& latent) {
  const char* name = c.find("rope_scaling") ? "rope_scaling" : "rope_parameters";
  const Json* given = c.find(name);
  if (given == nullptr || !given->is_object() || !model["positions"].contains("scaling")) return;
  const ModelConfig rope = c.part(name);
  const double all = rope.real("mscale_all_dim", 0);
  if (all == 0) return;
  const double length = yarn_length(rope.real("factor", 1), all);
  const double head = latent["plain_dim"].get<double>() + latent["rotary_dim"].get<double>();
  model["attention"]["scale"] = length * length / std::sqrt(head);
}

// The modules of a class in which each layer has experts, with these names, or a dense MLP.
Json modules_with(const Json& model, std::string_view mixture, LlamaNames names = {}) {
  const Json& moe = model.at("moe");
  std::string mlp(moe.is_null() ? dense_mlp : mixture);
  if (moe.contains("layers")) mlp += fmt::format(" {}", dense_mlp);
  names.mlp = mlp;
  return llama_modules(names);
}

}  // namespace

void describe_mixtral(const ModelConfig& c, Json& model) {
  if (c.real("router_jitter_noise", 0) != 0)
    c.cannot("router_jitter_noise", "it draws random numbers: set it to 0");
  describe_rms(c, model, 1e-5);
  describe_rotary(c, model, 1e6);
  describe_window(c, model);
  describe_experts(c, model, 8, 2);
  model["moe"]["class"] = "transformers.models.mixtral.modeling_mixtral.MixtralSparseMoeBlock";
  model["moe"]["normalised"] = true;
  model["modules"] = llama_modules({.mlp = router_first});
}

void describe_qwen2_moe(const ModelConfig& c, Json& model) {
  model["attention"]["qkv_bias"] = c.flag("qkv_bias", true);
  describe_rms(c, model);
  describe_rotary(c, model, 10000);
  if (c.flag("use_sliding_window")) {
    const std::int64_t last = c.size("max_window_layers", 28);
    Json windowed = Json::array();
    for (std::int64_t l = 0; l < model["layers"].get<std::int64_t>(); ++l)
      windowed.push_back(l % 2 == 0 && l < last);
    describe_window(c, model, 4096, windowed);
  }
  describe_experts(c, model, 60, 4);
  model["moe"]["class"] = "transformers.models.qwen2_moe.modeling_qwen2_moe.Qwen2MoeSparseMoeBlock";
  model["moe"]["normalised"] = c.flag("norm_topk_prob");
  model["moe"]["ffn"] = c.size("moe_intermediate_size", 1408);
  model["moe"]["shared_ffn"] = c.size("shared_expert_intermediate_size", 5632);
  describe_sparse_layers(c, model);
  const std::string shared =
      "~mlp.shared_expert.gate_proj:shared_gate ~mlp.shared_expert.up_proj:shared_up "
      "~mlp.shared_expert.down_proj:shared_down ~mlp.shared_expert.act_fn:function@shared_gate "
      "~mlp.shared_expert_gate:shared_router";
  model["modules"] = modules_with(model, fmt::format("{} {}", router_first, shared));
}

void describe_qwen3_moe(const ModelConfig& c, Json& model) {
  describe_biases(c, model);
  describe_rms(c, model);
  describe_rotary(c, model, 10000);
  if (c.flag("use_sliding_window")) describe_window(c, model, 4096);
  model["norm"]["of_q_and_k"] = "head";
  describe_experts(c, model, 128, 8);
  model["moe"]["class"] = "transformers.models.qwen3_moe.modeling_qwen3_moe.Qwen3MoeSparseMoeBlock";
  model["moe"]["normalised"] = c.flag("norm_topk_prob");
  model["moe"]["ffn"] = c.size("moe_intermediate_size", 768);
  describe_sparse_layers(c, model);
  model["modules"] = modules_with(
      model, "~mlp.experts:experts ~mlp.experts.act_fn:function@router ~mlp.gate:router",
      {.projections = normed_projections});
}

void describe_olmoe(const ModelConfig& c, Json& model) {
  if (c.find("clip_qkv") != nullptr) c.cannot("clip_qkv", "queries, keys and values are clipped");
  describe_biases(c, model);
  describe_rms(c, model, 1e-5);
  describe_rotary(c, model, 10000);
  model["norm"]["of_q_and_k"] = "all";
  describe_experts(c, model, 64, 8, 0.01);
  model["moe"]["class"] = "transformers.models.olmoe.modeling_olmoe.OlmoeSparseMoeBlock";
  model["moe"]["normalised"] = c.flag("norm_topk_prob");
  model["modules"] = llama_modules({.projections = normed_projections, .mlp = router_first});
}

// Latent attention, a router of sigmoids over groups of experts, and a shared expert without a
// factor.
void describe_deepseek_v3(const ModelConfig& c, Json& model) {
  describe_biases(c, model);
  describe_rms(c, model);
  describe_rotary(c, model, 10000);
  model["positions"]["neighbours"] = c.flag("rope_interleave", true);
  Json& attention = model["attention"];
  attention.erase("head_dim");  // of the rotated part alone
  Json latent = {{"kv_rank", c.size("kv_lora_rank", 512)},
                 {"plain_dim", c.size("qk_nope_head_dim", 128)},
                 {"rotary_dim", c.size("qk_rope_head_dim", 64)},
                 {"value_dim", c.size("v_head_dim", 128)},
                 {"eps", 1e-6}};  // whatever rms_norm_eps says
  if (!c.has("q_lora_rank") || c.find("q_lora_rank") != nullptr)
    latent["q_rank"] = c.size("q_lora_rank", 1536);
  describe_latent_scale(c, model, latent);
  attention["latent"] = latent;
  const std::int64_t width = c.size("moe_intermediate_size", 2048);
  model["moe"] = {
      {"experts",
       c.size(c.find("num_local_experts") ? "num_local_experts" : "n_routed_experts", 256)},
      {"per_token", c.size("num_experts_per_tok", 8)},
      {"ffn", width},
      {"shared_ffn", width * c.size("n_shared_experts", 1)},
      {"shared_factor", false},
      {"scores", "sigmoid"},
      {"groups", c.size("n_group", 8)},
      {"token_groups", c.size("topk_group", 4)},
      {"normalised", c.flag("norm_topk_prob", true)},
      {"factor", c.real("routed_scaling_factor", 2.5)},
      {"class", "transformers.models.deepseek_v3.modeling_deepseek_v3.DeepseekV3MoE"}};
  dense_first_layers(c, model);
  const std::string queries = latent.contains("q_rank")
                                  ? "~self_attn.q_a_proj:q_a ~self_attn.q_a_layernorm:q_a_norm "
                                    "~self_attn.q_b_proj:q_b"
                                  : "~self_attn.q_proj:q";
  const std::string projections =
      queries +
      " ~self_attn.kv_a_proj_with_mqa:kv_a ~self_attn.kv_a_layernorm:kv_a_norm "
      "~self_attn.kv_b_proj:kv_b ~self_attn.o_proj:attn_proj";
  model["modules"] = modules_with(
      model,
      "~mlp.experts:experts ~mlp.experts.act_fn:function@router ~mlp.gate:router "
      "~mlp.shared_experts.gate_proj:shared_gate ~mlp.shared_experts.up_proj:shared_up "
      "~mlp.shared_experts.down_proj:shared_down ~mlp.shared_experts.act_fn:function@shared_gate",
      {.projections = projections});
}

// Windows in every other layer, positions by YaRN, sinks, and experts whose gate has a limit.
void describe_gpt_oss(const ModelConfig& c, Json& model) {
  describe_biases(c, model, true);
  describe_rms(c, model, 1e-5);
  describe_rotary(c, model, 150000);
  if (c.find("rope_scaling") == nullptr && c.find("rope_parameters") == nullptr)
    model["positions"]["scaling"] = {{"kind", "yarn"},
                                     {"factor", 32},
                                     {"truncate", false},
                                     {"original_positions", 4096},
                                     {"attention_factor", yarn_length(32, 1)}};
  if (!c.has("head_dim")) model["attention"]["head_dim"] = 64;
  model["attention"]["sinks"] = true;
  describe_window(c, model, c.has("sliding_window") ? Json() : Json(128), {true, false});
  describe_experts(c, model, 128, 4);
  Json& moe = model["moe"];
  moe["class"] = "transformers.models.gpt_oss.modeling_gpt_oss.GptOssMLP";
  for (const char* flag : {"normalised", "bias", "in_out", "interleaved"}) moe[flag] = true;
  moe["gate"] = {
      {"limit", c.real("swiglu_limit", 7)}, {"gain", c.real("swiglu_alpha", 1.702)}, {"offset", 1}};
  const std::string attention = fmt::format("~self_attn:sinks {}", LlamaNames{}.projections);
  model["modules"] =
      llama_modules({.projections = attention, .mlp = "~mlp.router:router ~mlp.experts:experts"});
}

}  // namespace shardmark
