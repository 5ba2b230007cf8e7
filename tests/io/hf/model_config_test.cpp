// SPDX-License-Identifier: Apache-2.0
// A Hugging Face model config becomes the section `model` if a family has its shape, and is refused
// by the name of what no family has.
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

TEST_F(ModelConfigFile, takes_shapes_that_a_family_has) {
  const Json gpt2 = read(R"({"model_type": "gpt2", "n_embd": 1024, "n_layer": 24, "n_head": 16,
    "n_positions": 512, "vocab_size": 50257, "n_inner": null, "activation_function": "gelu_new"})");
  EXPECT_EQ(gpt2, (Json{{"family", "gpt2"},
                        {"layers", 24},
                        {"hidden", 1024},
                        {"heads", 16},
                        {"sequence", 512},
                        {"vocab", 50257},
                        {"tied_head", true}}));
  const Json llama = read(R"({"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192,
    "max_position_embeddings": 131072, "vocab_size": 128256, "tie_word_embeddings": true,
    "head_dim": 64, "attention_bias": false, "rope_scaling": {"factor": 32.0}})");
  EXPECT_EQ(llama, (Json{{"family", "llama"},
                         {"layers", 16},
                         {"hidden", 2048},
                         {"heads", 32},
                         {"kv_heads", 8},
                         {"ffn", 8192},
                         {"sequence", 131072},
                         {"vocab", 128256},
                         {"tied_head", true}}));
}

// The sizes of Qwen2.5-0.5B, of which 494,032,768 parameters are published.
TEST_F(ModelConfigFile, gives_qwen2_its_biases) {
  folder_.write("config.json", R"({"model_type": "qwen2", "hidden_size": 896,
    "num_hidden_layers": 24, "num_attention_heads": 14, "num_key_value_heads": 2,
    "intermediate_size": 4864, "max_position_embeddings": 32768, "vocab_size": 151936,
    "sliding_window": 32768, "use_sliding_window": false, "tie_word_embeddings": true})");
  const std::string path = folder_.write("d.json", good_deck);
  const Deck deck = read_deck(path, {"model=config.json"}, DeckUse::plan).deck;
  EXPECT_TRUE(deck.model.qkv_bias);
  EXPECT_EQ(build_model_shape(deck.model).elems, 494'032'768);
}

TEST_F(ModelConfigFile, takes_the_defaults_of_each_type) {
  const Json llama = read(R"({"model_type": "llama", "num_attention_heads": 16})");
  EXPECT_EQ(llama["kv_heads"], 16);
  EXPECT_EQ(llama["ffn"], 11008);
  EXPECT_EQ(read(R"({"model_type": "gpt2"})")["hidden"], 768);
  EXPECT_EQ(read(R"({"model_type": "mistral", "sliding_window": null})")["kv_heads"], 8);
}

TEST_F(ModelConfigFile, takes_a_window_that_hides_nothing) {
  expect_says(message(mistral),
              {"config.json: sliding_window = 4096", "32768", "\"sequence\": 4096"});
  EXPECT_EQ(read(mistral, {{"config", "x"}, {"sequence", 4096}})["sequence"], 4096);
  expect_says(message(R"({"model_type": "mistral"})"), {"sliding_window"});  // by default
}

TEST_F(ModelConfigFile, refuses_by_name_what_no_family_has) {
  const struct {
    const char *config, *says;
  } cases[] = {
      {R"({"model_type": "mixtral", "num_local_experts": 8})", "experts"},
      {R"({"model_type": "llama", "num_local_experts": 8})", "num_local_experts = 8"},
      {R"({"model_type": "qwen2_moe"})", "experts"},
      {R"({"model_type": "qwen2", "num_experts": 4})", "num_experts = 4"},
      {R"({"model_type": "mistral", "attention_bias": true})", "attention_bias = true"},
      {R"({"model_type": "llama", "attention_bias": true})", "attention_bias = true"},
      {R"({"model_type": "llama", "mlp_bias": true})", "mlp_bias = true"},
      {R"({"model_type": "llama", "head_dim": 64, "hidden_size": 4096})", "head_dim = 64"},
      {R"({"model_type": "llama", "sliding_window": 512, "layer_types": ["sliding_attention"]})",
       "sliding_window = 512"},
      {R"({"model_type": "llama", "quantization_config": {"bits": 4}})", "quantization_config"},
      {R"({"model_type": "gpt2", "n_inner": 1000})", "n_inner = 1000"},
      {R"({"model_type": "gpt2", "add_cross_attention": true})", "add_cross_attention"},
      {R"({"model_type": "t5"})", "model_type = \"t5\""},
      {R"({"hidden_size": 8})", "model_type: missing"},
      {R"({"model_type": "llama", "hidden_size": "big"})", "hidden_size = \"big\""},
      {R"({"model_type": "llama", "num_hidden_layers": 0})", "num_hidden_layers = 0"},
  };
  for (const auto& c : cases) expect_says(message(c.config), {"config.json", c.says});
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
