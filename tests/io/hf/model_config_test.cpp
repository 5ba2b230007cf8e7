// SPDX-License-Identifier: Apache-2.0
// A Hugging Face model config becomes the section `model`, a description of its decoder, and is
// refused by the name of what a description cannot say.
#include <fmt/core.h>

#include <core/plan/deck/decoder_modules.hpp>
#include <core/plan/model/model_shape.hpp>
#include <io/hf/model_config.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::model_config_test {
namespace {

class ModelConfigFile : public ::testing::Test {
 protected:
  Json read(const std::string& config, const Json& section = Json::object()) const {
    Origin origin("d.json");
    return model_from_config(origin, folder_.write("config.json", config), section);
  }
  std::string message(const std::string& config, const Json& section = Json::object()) const {
    return message_of<DeckError>([&] { read(config, section); });
  }
  ScratchFolder folder_;
};

constexpr const char* mistral = R"({"model_type": "mistral", "hidden_size": 4096,
  "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
  "intermediate_size": 14336, "max_position_embeddings": 32768, "vocab_size": 32000,
  "sliding_window": 4096, "tie_word_embeddings": false})";

// The keys of `want` in `have`.
void expect_has(const Json& have, const Json& want) {
  for (const auto& item : want.items()) EXPECT_EQ(have.at(item.key()), item.value()) << item.key();
}

TEST_F(ModelConfigFile, takes_sizes_by_the_names_of_each_type) {
  const Json gpt2 = read(R"({"model_type": "gpt2", "n_embd": 1024, "n_layer": 24, "n_head": 16,
    "n_positions": 512, "vocab_size": 50257, "n_inner": null, "activation_function": "gelu_new"})");
  expect_has(gpt2, {{"family", "decoder"},
                    {"like", "gpt2"},
                    {"layers", 24},
                    {"hidden", 1024},
                    {"heads", 16},
                    {"ffn", 4096},
                    {"sequence", 512},
                    {"vocab", 50257},
                    {"in_out", true},
                    {"tied_head", true}});
  const Json llama = read(R"({"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192,
    "max_position_embeddings": 131072, "vocab_size": 128256, "tie_word_embeddings": true,
    "head_dim": 64, "rope_theta": 500000.0, "rms_norm_eps": 1e-5, "rope_scaling": {"factor": 32.0,
    "rope_type": "llama3", "original_max_position_embeddings": 8192}})");
  expect_has(llama, {{"layers", 16},
                     {"hidden", 2048},
                     {"heads", 32},
                     {"kv_heads", 8},
                     {"ffn", 8192},
                     {"sequence", 131072},
                     {"vocab", 128256},
                     {"norm", {{"eps", 1e-5}}},
                     {"tied_head", true}});
  expect_has(llama["positions"], {{"base", 500000.0}, {"kind", "rotary"}});
  expect_has(llama["positions"]["scaling"],
             {{"kind", "llama3"}, {"factor", 32.0}, {"original_positions", 8192}});
}

// The sizes of Qwen2.5-0.5B, of which 494,032,768 parameters are published.
TEST_F(ModelConfigFile, gives_qwen2_its_biases) {
  folder_.write("config.json", R"({"model_type": "qwen2", "hidden_size": 896,
    "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
    "intermediate_size": 4864, "max_position_embeddings": 32768, "vocab_size": 151936,
    "sliding_window": 32768, "use_sliding_window": false, "tie_word_embeddings": true})");
  const std::string path = folder_.write("d.json", good_deck);
  const Deck deck = read_deck(path, {"model=config.json"}, DeckUse::plan).deck;
  EXPECT_TRUE(deck.model.decoder->attention.qkv_bias);
  EXPECT_FALSE(deck.model.decoder->attention.bias);
  EXPECT_EQ(deck.model.decoder->attention.window, 0);
  EXPECT_EQ(build_model_shape(deck.model).elems, 494'032'768);
}

TEST_F(ModelConfigFile, takes_the_defaults_of_each_type) {
  const Json llama = read(R"({"model_type": "llama", "num_attention_heads": 16})");
  EXPECT_EQ(llama["kv_heads"], 16);
  EXPECT_EQ(llama["ffn"], 11008);
  EXPECT_EQ(read(R"({"model_type": "gpt2"})")["hidden"], 768);
  EXPECT_EQ(read(R"({"model_type": "mistral", "sliding_window": null})")["kv_heads"], 8);
}

TEST_F(ModelConfigFile, takes_windows_of_all_layers_and_of_some) {
  EXPECT_EQ(read(mistral)["attention"]["window"], 4096);
  EXPECT_EQ(read(R"({"model_type": "mistral"})")["attention"]["window"], 4096) << "by default";
  EXPECT_FALSE(read(R"({"model_type": "mistral", "sliding_window": null})").contains("attention"));
  const Json some = read(R"({"model_type": "qwen2", "use_sliding_window": true,
    "num_hidden_layers": 3, "max_window_layers": 2, "sliding_window": 64})");
  EXPECT_EQ(some["attention"]["windowed"], Json({false, false, true}));
  const Json types = read(R"({"model_type": "gemma2", "num_hidden_layers": 2,
    "layer_types": ["full_attention", "sliding_attention"]})");
  EXPECT_EQ(types["attention"]["windowed"], Json({false, true}));
  EXPECT_EQ(read(mistral, {{"config", "x"}, {"sequence", 4096}})["sequence"], 4096);
}

// Published numbers of parameters.
TEST_F(ModelConfigFile, gives_real_models_their_parameters) {
  const struct {
    const char* config;
    std::int64_t parameters;
  } cases[] = {
      {R"({"model_type": "falcon"})", 6'921'720'704},
      {R"({"model_type": "gpt_neox"})", 20'554'567'680},
      {R"({"model_type": "gptj"})", 6'050'882'784},
      {R"({"model_type": "phi", "hidden_size": 2560, "intermediate_size": 10240,
           "num_hidden_layers": 32, "partial_rotary_factor": 0.4})",
       2'779'683'840},
      {R"({"model_type": "gemma2"})", 2'614'341'888},
      {R"({"model_type": "qwen3", "hidden_size": 4096, "intermediate_size": 12288, "head_dim": 128,
           "num_hidden_layers": 36, "num_key_value_heads": 8, "vocab_size": 151936})",
       8'190'735'360},
      {R"({"model_type": "deepseek_v3"})", 671'026'404'352},
  };
  for (const auto& c : cases) {
    folder_.write("config.json", c.config);
    const std::string path = folder_.write("d.json", good_deck);
    const Deck deck = read_deck(path, {"model=config.json"}, DeckUse::plan).deck;
    EXPECT_EQ(build_model_shape(deck.model).elems, c.parameters) << c.config;
  }
}

// The order of the hooks of a forward pass of one layer, as recorded from transformers 5.24.
TEST_F(ModelConfigFile, calls_modules_in_the_order_of_transformers) {
  const struct {
    const char *config, *calls;
  } cases[] = {
      {R"({"model_type": "opt", "num_hidden_layers": 1})",
       "model.decoder model.decoder.embed_tokens model.decoder.embed_positions "
       "model.decoder.layers.0 model.decoder.layers.0.self_attn_layer_norm "
       "model.decoder.layers.0.self_attn model.decoder.layers.0.self_attn.q_proj "
       "model.decoder.layers.0.self_attn.k_proj model.decoder.layers.0.self_attn.v_proj "
       "model.decoder.layers.0.self_attn.out_proj model.decoder.layers.0.final_layer_norm "
       "model.decoder.layers.0.fc1 model.decoder.layers.0.activation_fn model.decoder.layers.0.fc2 "
       "model.decoder.final_layer_norm lm_head"},
      {R"({"model_type": "falcon", "num_hidden_layers": 1, "new_decoder_architecture": true,
           "num_attention_heads": 64, "num_kv_heads": 8, "hidden_size": 4096})",
       "transformer transformer.word_embeddings transformer.rotary_emb transformer.h.0 "
       "transformer.h.0.ln_attn transformer.h.0.ln_mlp transformer.h.0.self_attention "
       "transformer.h.0.self_attention.query_key_value transformer.h.0.self_attention.dense "
       "transformer.h.0.mlp transformer.h.0.mlp.dense_h_to_4h transformer.h.0.mlp.act "
       "transformer.h.0.mlp.dense_4h_to_h transformer.ln_f lm_head"},
      {R"({"model_type": "gemma3_text", "num_hidden_layers": 1})",
       "model model.embed_tokens model.rotary_emb model.layers.0 model.layers.0.input_layernorm "
       "model.layers.0.self_attn model.layers.0.self_attn.q_proj model.layers.0.self_attn.k_proj "
       "model.layers.0.self_attn.v_proj model.layers.0.self_attn.q_norm "
       "model.layers.0.self_attn.k_norm model.layers.0.self_attn.o_proj "
       "model.layers.0.post_attention_layernorm model.layers.0.pre_feedforward_layernorm "
       "model.layers.0.mlp model.layers.0.mlp.gate_proj model.layers.0.mlp.act_fn "
       "model.layers.0.mlp.up_proj "
       "model.layers.0.mlp.down_proj model.layers.0.post_feedforward_layernorm model.norm "
       "lm_head"},
  };
  for (const auto& c : cases) {
    folder_.write("config.json", c.config);
    const std::string path = folder_.write("d.json", good_deck);
    const ModelShape shape =
        build_model_shape(read_deck(path, {"model=config.json"}, DeckUse::plan).deck.model);
    std::string calls;
    for (const Visit& v : shape.visits)
      if (v.kind == VisitKind::pre_forward && v.module != 0)
        calls += (calls.empty() ? "" : " ") + shape.modules[v.module].name;
    EXPECT_EQ(calls, c.calls);
  }
}

TEST_F(ModelConfigFile, takes_the_decoder_of_models_that_read_images) {
  const Json text = read(R"({"model_type": "llava", "text_config": {"model_type": "llama",
    "num_hidden_layers": 3}, "vision_config": {"num_hidden_layers": 24}})");
  EXPECT_EQ(text["layers"], 3);
}

TEST_F(ModelConfigFile,
       gpt_oss_has_windows_in_every_other_layer_and_yarn_unless_it_says_otherwise) {
  const Json usual = read(R"({"model_type": "gpt_oss"})");
  expect_has(usual, {{"layers", 36}, {"heads", 64}, {"kv_heads", 8}, {"tied_head", false}});
  expect_has(usual["attention"], {{"head_dim", 64},
                                  {"sinks", true},
                                  {"window", 128},
                                  {"windowed", {true, false}},
                                  {"qkv_bias", true},
                                  {"bias", true}});
  expect_has(usual["positions"], {{"base", 150000.0}});
  expect_has(usual["positions"]["scaling"],
             {{"kind", "yarn"}, {"factor", 32}, {"original_positions", 4096}, {"truncate", false}});
  expect_has(usual["moe"]["gate"], {{"limit", 7.0}, {"gain", 1.702}, {"offset", 1}});
  const Json other = read(R"({"model_type": "gpt_oss", "sliding_window": null, "head_dim": null,
    "attention_bias": false, "swiglu_limit": 3.5, "rope_parameters": {"rope_type": "default",
    "rope_theta": 1000.0}})");
  EXPECT_FALSE(other["attention"].contains("window"));
  EXPECT_FALSE(other["attention"].contains("head_dim"));
  EXPECT_FALSE(other["positions"].contains("scaling"));
  expect_has(other["attention"], {{"qkv_bias", false}, {"bias", false}});
  expect_has(other["moe"]["gate"], {{"limit", 3.5}});
}

TEST_F(ModelConfigFile, the_loss_has_a_part_that_balances_experts_if_router_logits_are_put_out) {
  const auto factor = [&](const std::string& type, const std::string& keys) {
    const Json moe = read(R"({"model_type": ")" + type + '"' + keys + '}').at("moe");
    return moe.contains("balance_loss") ? moe["balance_loss"].get<double>() : 0;
  };
  for (const char* type : {"mixtral", "qwen2_moe", "qwen3_moe", "olmoe"})
    EXPECT_EQ(factor(type, ""), 0) << type;
  EXPECT_EQ(factor("mixtral", R"(, "output_router_logits": true)"), 0.001);
  EXPECT_EQ(factor("olmoe", R"(, "output_router_logits": true)"), 0.01);
  EXPECT_EQ(factor("qwen3_moe", R"(, "output_router_logits": true, "router_aux_loss_coef": 0.25)"),
            0.25);
}

TEST_F(ModelConfigFile, describes_the_latents_and_the_groups_of_deepseek_v3) {
  folder_.write("config.json", R"({"model_type": "deepseek_v3", "rope_scaling": {"type": "yarn",
      "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096}})");
  const std::string path = folder_.write("d.json", good_deck);
  const std::vector<std::string> sets{"model=config.json", "model.sequence=32"};
  const Deck deck = read_deck(path, sets, DeckUse::plan).deck;
  const Decoder& d = *deck.model.decoder;
  EXPECT_EQ(d.attention.latent.qk_dim(), 192);
  EXPECT_NEAR(d.attention.scale, 1.8738565 / 13.8564065, 1e-6);  // (0.1 ln 40 + 1)^2 / sqrt(192)
  EXPECT_FALSE(has_experts(d, 2));
  EXPECT_TRUE(has_experts(d, 3));
  EXPECT_EQ(build_model_shape(deck.model).params.size(), 909);
  EXPECT_EQ(d.attention.latent.eps, 1e-6);
  EXPECT_NO_THROW(load_deck(path, sets));
  const struct {
    const char *config, *says;
  } cases[] = {
      {R"("num_key_value_heads": 64)", "as many as heads = 128"},
      {R"("v_head_dim": 256)", "plain_dim + rotary_dim = 192"},
      {R"("qk_rope_head_dim": 63)", "pairs of channels"},
      {R"("n_group": 7)", "must divide"},
      {R"("n_group": 256)", "at most half"},
      {R"("partial_rotary_factor": 0.5)", "rotary_dim says"},
      {R"("topk_group": 1, "num_experts_per_tok": 33)", "1 groups have only 32 experts"},
      {R"("topk_group": 9)", "token_groups"},
  };
  for (const auto& c : cases) {
    folder_.write("config.json", fmt::format(R"({{"model_type": "deepseek_v3", {}}})", c.config));
    expect_says(message_of<DeckError>([&] { read_deck(path, sets, DeckUse::plan); }), {c.says});
  }
}

// A config of a mixture may say that no layer has experts.
TEST_F(ModelConfigFile, takes_mixtures_all_of_whose_layers_are_dense) {
  for (const char* config :
       {R"({"model_type": "deepseek_v3", "num_hidden_layers": 2, "n_routed_experts": 4})",
        R"({"model_type": "qwen2_moe", "num_hidden_layers": 2, "num_experts": 4,
            "mlp_only_layers": [0, 1]})"}) {
    const Json model = read(config);
    EXPECT_FALSE(model.contains("moe")) << config;
    EXPECT_NE(model.at("modules").dump().find("mlp.down_proj"), std::string::npos) << config;
    EXPECT_EQ(model.at("modules").dump().find("experts"), std::string::npos) << config;
  }
}

TEST_F(ModelConfigFile, refuses_by_name_what_a_description_cannot_say) {
  const struct {
    const char *config, *says;
  } cases[] = {
      {R"({"model_type": "deepseek_v2", "n_routed_experts": 8})", "experts"},
      {R"({"model_type": "deepseek_v3", "first_k_dense_replace": -1})", "first_k_dense_replace"},
      {R"({"model_type": "mixtral", "router_jitter_noise": 0.1})", "router_jitter_noise"},
      {R"({"model_type": "qwen3_moe", "mlp_only_layers": 1})", "mlp_only_layers"},
      {R"({"model_type": "olmoe", "clip_qkv": 8.0})", "clip_qkv = 8.0"},
      {R"({"model_type": "llama", "num_local_experts": 8})", "num_local_experts = 8"},
      {R"({"model_type": "qwen2", "num_experts": 4})", "num_experts = 4"},
      {R"({"model_type": "llama", "quantization_config": {"bits": 4}})", "quantization_config"},
      {R"({"model_type": "gpt2", "add_cross_attention": true})", "add_cross_attention"},
      {R"({"model_type": "t5"})", "model_type = \"t5\""},
      {R"({"model_type": "qwen4"})", "qwen3"},
      {R"({"model_type": "phi", "qk_layernorm": true})", "qk_layernorm = true"},
      {R"({"model_type": "olmo", "clip_qkv": 8.0})", "clip_qkv = 8.0"},
      {R"({"model_type": "llama", "rope_scaling": {"rope_type": "longrope"}})", "longrope"},
      {R"({"hidden_size": 8})", "model_type: missing"},
      {R"({"model_type": "llama", "hidden_size": "big"})", "hidden_size = \"big\""},
      {R"({"model_type": "llama", "num_hidden_layers": 0})", "num_hidden_layers = 0"},
  };
  for (const auto& c : cases) expect_says(message(c.config), {"config.json", c.says});
}

// What follows from a config is said of the config, whatever the deck's name for it is.
// A description has lists of layers, which would take all memory before anything else is checked.
TEST_F(ModelConfigFile, refuses_numbers_of_layers_that_no_model_has) {
  const std::string deck = folder_.write("d.json", good_deck);
  for (const auto& [type, key] : {std::pair("qwen3_moe", "num_hidden_layers"),
                                  {"deepseek_v3", "num_hidden_layers"},
                                  {"gemma3_text", "sliding_window_pattern"},
                                  {"smollm3", "no_rope_layer_interval"}}) {
    folder_.write("config.json", Json({{"model_type", type}, {key, 1'000'000'000}}).dump());
    expect_says(message_of<DeckError>([&] {
                  read_deck(deck, {"model=config.json", "model.sequence=8"}, DeckUse::plan);
                }),
                {std::string(key) + " = 1000000000: must be an integer from 1 to 100000"});
  }
}

TEST_F(ModelConfigFile, is_named_where_its_sizes_do_not_agree) {
  folder_.write("config.json", R"({"model_type": "llama", "hidden_size": 24,
                                   "num_attention_heads": 4, "num_key_value_heads": 3})");
  const std::string path = folder_.write("d.json", good_deck);
  const auto refusal = [&](const std::vector<std::string>& sets) {
    return message_of<DeckError>([&] { read_deck(path, sets, DeckUse::plan); });
  };
  expect_says(refusal({"model=config.json"}), {"config.json, as model.kv_heads = 3: must divide"});
  expect_says(refusal({"model=config.json", "model.kv_heads=8"}),
              {"config.json (--set): model.kv_heads = 8: must be an integer from 1 to 4"});
  expect_says(refusal({"model=config.json", "model.family=gpt2"}),
              {"config.json (--set): model.family = \"gpt2\"", "of family \"decoder\"", "remove"});
}

TEST_F(ModelConfigFile, stands_in_a_deck_in_place_of_the_section) {
  folder_.write("config.json", R"({"model_type": "gpt2", "n_embd": 64, "n_layer": 3, "n_head": 4,
                                   "n_positions": 32, "vocab_size": 300})");
  const std::string path = folder_.write("d.json", good_deck);
  const auto model = [&](const std::vector<std::string>& sets) {
    return read_deck(path, sets, DeckUse::plan).deck.model;
  };
  EXPECT_EQ(model({"model=config.json"}).layers, 3);
  EXPECT_TRUE(model({"model=config.json"}).tied_head);
  EXPECT_EQ(model({"model={\"config\": \"config.json\", \"layers\": 1}"}).layers, 1);
  EXPECT_EQ(model({"model=config.json", "model.sequence=8"}).sequence, 8);
  EXPECT_EQ(model({"model=" + folder_.path()}).hidden, 64) << "a folder that contains config.json";
  expect_says(message_of<DeckError>([&] { model({"model=gone.json"}); }), {"gone.json", "no such"});
  expect_says(message_of<DeckError>([&] {
                model({"model=config.json", "model.sequnce=8"});
              }),
              {"sequence"});
}

}  // namespace
}  // namespace shardmark::test::model_config_test
