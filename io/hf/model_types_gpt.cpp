// SPDX-License-Identifier: Apache-2.0
// Types with LayerNorm. Each function says in what its class differs from a GPT-2, or from a Llama.
#include <cmath>

#include <io/hf/model_types.hpp>

namespace shardmark {
namespace {

// Sections start from GPT-2: LayerNorm with biases, no gate, q, k and v joined, biases everywhere.
void like_gpt2(const ModelConfig& c, Json& model, const char* eps) {
  model["like"] = "gpt2";
  model["norm"]["eps"] = c.real(eps, 1e-5);
}

// LayerNorm in a block that is otherwise a Llama's.
void llama_with_layer_norm(const ModelConfig& c, Json& model, bool bias) {
  model["norm"] = {{"kind", "layer"}, {"bias", bias}, {"eps", c.real("layer_norm_eps", 1e-5)}};
}

// The one norm of a parallel block.
constexpr std::string_view one_norm = "~input_layernorm:norm1";

}  // namespace

void describe_gpt2(const ModelConfig& c, Json& model) {
  c.refuse_flag("scale_attn_by_inverse_layer_idx", "a scale of its own in each layer");
  like_gpt2(c, model, "layer_norm_epsilon");
  model["kv_heads"] = model["heads"];
  model["in_out"] = true;
  model["positions"] = {{"kind", "learned"}, {"rows", model["sequence"]}};
  if (!c.flag("scale_attn_weights", true)) model["attention"]["scale"] = 1;
  const std::string_view dropped = dropout(c, "resid_pdrop", 0.1);
  model["modules"] =
      modules_of("transformer.h",
                 fmt::format("transformer.wte:token_embedding transformer.wpe:position_embedding "
                             "transformer.drop:{}@position_embedding ~ln_1:norm1 ~attn.c_attn:qkv "
                             "~attn.c_proj:attn_proj ~attn.resid_dropout:{}@attn_proj ~ln_2:norm2 "
                             "~mlp.c_fc:fc ~mlp.c_proj:mlp_proj ~mlp.act:function@fc "
                             "~mlp.dropout:{}@mlp_proj transformer.ln_f:final_norm lm_head:head",
                             dropout(c, "embd_pdrop", 0.1), dropped, dropped));
}

void describe_gpt_neox(const ModelConfig& c, Json& model) {
  like_gpt2(c, model, "layer_norm_eps");
  model["mlp"]["activation"] = "gelu";
  model["kv_heads"] = model["heads"];
  describe_rotary(c, model, 10000, 0.25);
  model["attention"]["qkv"] = "grouped";
  set_attention_biases(model, c.flag("attention_bias", true));
  if (c.flag("use_parallel_residual", true)) model["block"]["kind"] = "parallel_two_norms";
  const std::string_view dropped = dropout(c, "hidden_dropout");
  model["modules"] = modules_of(
      "gpt_neox.layers",
      fmt::format("gpt_neox.embed_in:token_embedding gpt_neox.emb_dropout:{}@token_embedding "
                  "gpt_neox.rotary_emb:constant@token_embedding ~input_layernorm:norm1 "
                  "~post_attention_layernorm:norm2 ~attention.query_key_value:qkv "
                  "~attention.dense:attn_proj ~post_attention_dropout:{}@attn_proj "
                  "~mlp.dense_h_to_4h:fc ~mlp.dense_4h_to_h:mlp_proj ~mlp.act:function@fc "
                  "~post_mlp_dropout:{}@mlp_proj gpt_neox.final_layer_norm:final_norm "
                  "lm_head:head",
                  dropped, dropped, dropped));
}

void describe_gptj(const ModelConfig& c, Json& model) {
  like_gpt2(c, model, "layer_norm_epsilon");
  model["kv_heads"] = model["heads"];
  if (c.has("rotary_dim") && c.find("rotary_dim") == nullptr)
    c.refuse("rotary_dim", nullptr, "not modelled: one rotation over all heads");
  const double head = model["hidden"].get<double>() / model["heads"].get<double>();
  model["positions"] = {{"kind", "rotary"},
                        {"part", static_cast<double>(c.size("rotary_dim", 64)) / head},
                        {"neighbours", true}};
  model["attention"] = {{"qkv", "separate"}, {"qkv_bias", false}, {"bias", false}};
  model["block"]["kind"] = "parallel";
  model["ends"]["head_bias"] = true;
  const std::string_view dropped = dropout(c, "resid_pdrop");
  model["modules"] = modules_of(
      "transformer.h",
      fmt::format("transformer.wte:token_embedding transformer.drop:{}@token_embedding "
                  "transformer.rotary_emb:constant@token_embedding ~ln_1:norm1 ~attn.k_proj:k "
                  "~attn.v_proj:v ~attn.q_proj:q ~attn.out_proj:attn_proj "
                  "~attn.resid_dropout:{}@attn_proj ~mlp.fc_in:fc ~mlp.fc_out:mlp_proj "
                  "~mlp.act:function@fc ~mlp.dropout:{}@mlp_proj transformer.ln_f:final_norm "
                  "lm_head:head",
                  dropout(c, "embd_pdrop"), dropped, dropped));
}

void describe_opt(const ModelConfig& c, Json& model) {
  if (!c.flag("do_layer_norm_before", true))
    c.cannot("do_layer_norm_before", "norms of the residual stream itself");
  if (const auto width = c.size("word_embed_proj_dim", model["hidden"].get<std::int64_t>());
      width != model["hidden"])
    c.cannot("word_embed_proj_dim", "embeddings of another width than the residual stream");
  like_gpt2(c, model, "layer_norm_eps");
  const bool bias = c.flag("enable_bias", true),
             affine = c.flag("layer_norm_elementwise_affine", true);
  model["kv_heads"] = model["heads"];
  model["norm"]["weight"] = affine;
  model["positions"] = {
      {"kind", "learned"}, {"rows", model["sequence"].get<std::int64_t>() + 2}, {"offset", 2}};
  model["attention"] = {{"qkv", "separate"}, {"qkv_bias", bias}, {"bias", bias}};
  model["mlp"] = {{"activation", "relu"}, {"bias", bias}};
  model["modules"] = modules_of(
      "model.decoder.layers",
      fmt::format(
          "model:container model.decoder.embed_tokens:token_embedding "
          "model.decoder.embed_positions:position_embedding "
          "model.decoder.final_layer_norm:final_norm ~self_attn.k_proj:k ~self_attn.v_proj:v "
          "~self_attn.q_proj:q ~self_attn.out_proj:attn_proj ~self_attn_layer_norm:norm1 "
          "~fc1:fc ~fc2:mlp_proj ~activation_fn:function@fc ~final_layer_norm:norm2 {} "
          "lm_head:head",
          dropout_around("~", c, "dropout", 0.1)));
}

void describe_bloom(const ModelConfig& c, Json& model) {
  c.refuse_flag("apply_residual_connection_post_layernorm", "a residual stream from the norm");
  like_gpt2(c, model, "layer_norm_epsilon");
  model["kv_heads"] = model["heads"];
  model["positions"]["kind"] = "alibi";
  model["attention"]["qkv"] = "grouped";
  model["ends"]["embedding_norm"] = true;
  model["modules"] = modules_of(
      "transformer.h",
      fmt::format("transformer.word_embeddings:token_embedding "
                  "transformer.word_embeddings_layernorm:embedding_norm ~input_layernorm:norm1 "
                  "~self_attention.query_key_value:qkv ~self_attention.dense:attn_proj "
                  "~self_attention.attention_dropout:{}@qkv ~post_attention_layernorm:norm2 "
                  "~mlp.dense_h_to_4h:fc ~mlp.dense_4h_to_h:mlp_proj ~mlp.gelu_impl:function@fc "
                  "{} transformer.ln_f:final_norm lm_head:head",
                  dropout(c, "attention_dropout"), dropout_around("~mlp", c, "hidden_dropout")));
}

void describe_falcon(const ModelConfig& c, Json& model) {
  like_gpt2(c, model, "layer_norm_epsilon");
  const bool later = c.flag("new_decoder_architecture"), bias = c.flag("bias");
  const bool parallel = later || c.flag("parallel_attn", true);
  const bool one_key = !later && c.flag("multi_query", true);
  const std::int64_t norms = later ? c.size("num_ln_in_parallel_attn", 2) : 1;
  const double head = model["hidden"].get<double>() / model["heads"].get<double>();
  if (!later) model["kv_heads"] = one_key ? Json(1) : model["heads"];
  if (c.flag("alibi"))
    model["positions"] = {{"kind", "alibi"}, {"alibi_factor", 1 / std::sqrt(head)}};
  else
    describe_rotary(c, model, 10000);
  model["attention"] = {
      {"qkv", one_key ? "joined" : "grouped"}, {"qkv_bias", bias}, {"bias", bias}};
  model["mlp"] = {{"activation", "gelu"}, {"bias", bias}};
  model["own_linear"] = true;
  const bool two = parallel && norms == 2;
  if (parallel)
    model["block"] = {{"kind", two ? "parallel_two_norms" : "parallel"}, {"norms_first", two}};
  const std::string_view names = two ? "~ln_attn:norm1 ~ln_mlp:norm2"
                                 : parallel
                                     ? one_norm
                                     : "~post_attention_layernorm:norm2 ~input_layernorm:norm1";
  model["modules"] =
      modules_of("transformer.h",
                 fmt::format("transformer.word_embeddings:token_embedding "
                             "transformer.rotary_emb:constant@token_embedding "
                             "~self_attention.query_key_value:qkv ~self_attention.dense:attn_proj "
                             "~mlp.dense_h_to_4h:fc ~mlp.dense_4h_to_h:mlp_proj "
                             "~mlp.act:function@fc {} {} transformer.ln_f:final_norm lm_head:head",
                             names, dropout_around("~", c, "hidden_dropout")));
}

void describe_phi(const ModelConfig& c, Json& model) {
  c.refuse_flag("qk_layernorm", "norms of q and k with biases");
  like_gpt2(c, model, "layer_norm_eps");
  describe_rotary(c, model, 10000, 0.5);
  model["attention"]["qkv"] = "separate";
  model["block"]["kind"] = "parallel";
  model["ends"]["head_bias"] = true;
  // One module after attention and after the MLP.
  const std::string_view dropped = dropout(c, "resid_pdrop");
  const std::string dropouts =
      fmt::format("~resid_dropout:{}@attn_proj ~resid_dropout:{}@mlp_proj", dropped, dropped);
  const std::string angles = fmt::format("model.embed_dropout:{}@token_embedding {}",
                                         dropout(c, "embd_pdrop"), LlamaNames{}.angles);
  model["modules"] =
      llama_modules({.projections = "~self_attn.q_proj:q ~self_attn.k_proj:k ~self_attn.v_proj:v "
                                    "~self_attn.dense:attn_proj",
                     .mlp = "~mlp.fc1:fc ~mlp.fc2:mlp_proj ~mlp.activation_fn:function@fc",
                     .norms = one_norm,
                     .last_norm = "model.final_layernorm",
                     .dropouts = dropouts,
                     .angles = angles});
}

void describe_starcoder2(const ModelConfig& c, Json& model) {
  like_gpt2(c, model, "norm_epsilon");
  if (c.find("initializer_range") == nullptr) model["init_std"] = 0.018042;
  describe_rotary(c, model, 10000);
  describe_window(c, model);
  const bool bias = c.flag("use_bias", true);
  model["attention"]["qkv"] = "separate";
  set_attention_biases(model, bias);
  model["mlp"]["bias"] = bias;
  const std::string dropouts = dropout_around("~mlp", c, "residual_dropout");
  model["modules"] = llama_modules(
      {.mlp = "~mlp.c_fc:fc ~mlp.c_proj:mlp_proj ~mlp.act:function@fc", .dropouts = dropouts});
}

void describe_stablelm(const ModelConfig& c, Json& model) {
  c.refuse_flag("qk_layernorm", "a norm of its own for each head");
  llama_with_layer_norm(c, model, true);
  describe_rotary(c, model, 10000, 0.25);
  model["attention"]["qkv_bias"] = c.flag("use_qkv_bias");
  const bool parallel = c.flag("use_parallel_residual");
  if (parallel) model["block"]["kind"] = "parallel";
  const std::string dropouts = fmt::format("~dropout:{}@mlp_proj", dropout(c, "hidden_dropout"));
  LlamaNames names{.dropouts = dropouts};
  if (parallel) names.norms = one_norm;
  model["modules"] = llama_modules(names);
}

void describe_cohere(const ModelConfig& c, Json& model) {
  c.refuse_flag("use_qk_norm", "a norm of its own for each head");
  llama_with_layer_norm(c, model, false);
  describe_rotary(c, model, 500000);
  model["positions"]["neighbours"] = true;
  model["block"]["kind"] = "parallel";
  set_attention_biases(model, c.flag("attention_bias"));
  model["ends"]["logits_factor"] = c.real("logit_scale", 0.0625);
  model["modules"] = llama_modules({.norms = one_norm});
}

void describe_olmo(const ModelConfig& c, Json& model) {
  if (c.find("clip_qkv") != nullptr) c.cannot("clip_qkv", "bounds of q, k and v");
  llama_with_layer_norm(c, model, false);
  model["norm"]["eps"] = 1e-5;
  model["norm"]["weight"] = false;
  describe_rotary(c, model, 10000);
  set_attention_biases(model, c.flag("attention_bias"));
  model["modules"] = llama_modules();
}

}  // namespace shardmark
