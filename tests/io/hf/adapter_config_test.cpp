// SPDX-License-Identifier: Apache-2.0
// PEFT's adapter_config.json becomes the section `model.adapter`, selects modules as PEFT does, and
// is refused by the name of what the section cannot say.
#include <algorithm>

#include <core/plan/model/model_shape.hpp>
#include <io/deck/deck_reader.hpp>
#include <tests/support/io_scratch.hpp>
#include <tests/support/message_of.hpp>

namespace shardmark::test::adapter_config_test {
namespace {

constexpr const char* llama = R"({"model_type": "llama", "hidden_size": 24, "num_hidden_layers": 3,
  "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 40, "vocab_size": 61})";

class AdapterConfigFile : public ::testing::Test {
 protected:
  LoadedDeck load(const Json& adapter, const Json& more = Json::object(),
                  const std::string& model = llama) const {
    folder_.write("config.json", model);
    folder_.write("adapter_config.json", adapter.dump());
    Json deck = {{"model", {{"config", "config.json"}, {"sequence", 12}}},
                 {"deepspeed", {{"train_micro_batch_size_per_gpu", 1}}}};
    deck.merge_patch(more);
    return read_deck(folder_.write("deck.json", deck.dump()), {}, DeckUse::plan);
  }
  std::string message(const Json& adapter, const Json& more = Json::object(),
                      const std::string& model = llama) const {
    return message_of<DeckError>([&] { load(adapter, more, model); });
  }
  ScratchFolder folder_;
};

Json lora(const Json& more = Json::object()) {
  Json adapter = {
      {"peft_type", "LORA"}, {"r", 4}, {"lora_alpha", 6}, {"target_modules", {"q_proj", "v_proj"}}};
  adapter.update(more);
  return adapter;
}

std::int64_t trained_elems(const Deck& deck) {
  std::int64_t elems = 0;
  for (const Param& p : build_model_shape(deck.model).params) elems += p.trained() ? p.elems : 0;
  return elems;
}

TEST_F(AdapterConfigFile, is_found_beside_the_config_unless_the_deck_says_none) {
  const LoadedDeck loaded = load(lora());
  EXPECT_EQ(loaded.deck.model.decoder->adapter.rank, 4);
  EXPECT_EQ(loaded.deck.model.decoder->adapter.scaling, 1.5);
  EXPECT_TRUE(std::any_of(loaded.findings.begin(), loaded.findings.end(),
                          [](const Finding& f) { return f.key == "model.adapter"; }));
  // q: 24 x 24, v: 12 x 24, in three layers
  EXPECT_EQ(trained_elems(loaded.deck), 3 * 4 * (24 + 24 + 24 + 12));
  const LoadedDeck none = load(lora(), {{"model", {{"adapter", "none"}}}});
  EXPECT_EQ(none.deck.model.decoder->adapter.rank, 0);
  EXPECT_EQ(load(lora({{"use_rslora", true}})).deck.model.decoder->adapter.scaling, 3);
}

TEST_F(AdapterConfigFile, selects_by_names_patterns_and_layers) {
  const auto selects = [&](const Json& more) { return trained_elems(load(lora(more)).deck); };
  const std::int64_t q = 4 * 48, down = 4 * 64, k = 4 * 36;
  EXPECT_EQ(selects({{"target_modules", {"self_attn.q_proj"}}}), 3 * q);
  EXPECT_EQ(selects({{"target_modules", {"q_proj"}}, {"layers_to_transform", 1}}), q);
  EXPECT_EQ(selects({{"target_modules", {"q_proj"}}, {"layers_to_transform", {0, 2}}}), 2 * q);
  EXPECT_EQ(selects({{"target_modules", R"(.*layers\.[12]\.mlp\.down_proj)"}}), 2 * down);
  EXPECT_EQ(selects({{"target_modules", "all-linear"}}), 3 * (2 * q + 2 * k + 3 * down));
}

TEST_F(AdapterConfigFile, a_name_that_selects_nothing_is_said_with_every_answer) {
  const auto assumptions = load(lora({{"target_modules", {"q_proj", "kk_proj"}}})).deck.assumptions;
  const auto says = [](const std::string& text) {
    return text.find("\"kk_proj\": no module") != std::string::npos;
  };
  EXPECT_EQ(std::count_if(assumptions.begin(), assumptions.end(), says), 1);
}

TEST_F(AdapterConfigFile, is_refused_for_what_it_cannot_say) {
  EXPECT_NE(message(lora({{"use_dora", true}})).find("use_dora"), std::string::npos);
  EXPECT_NE(message(lora({{"modules_to_save", {"lm_head"}}})).find("modules_to_save"),
            std::string::npos);
  EXPECT_NE(message(lora({{"peft_type", "IA3"}})).find("\"IA3\""), std::string::npos);
  EXPECT_NE(message(lora({{"lora_alhpa", 3}})).find("lora_alhpa"), std::string::npos);
  EXPECT_NE(message(lora({{"bias", "some"}})).find("lora_only"), std::string::npos);
  EXPECT_NE(message(lora({{"target_modules", nullptr}})).find("target_modules: missing"),
            std::string::npos);
  EXPECT_NE(message(lora({{"target_modules", {"query"}}})).find("\"q_proj\""), std::string::npos);
  expect_says(message(lora({{"target_modules", "(q"}})),
              {"adapter_config.json: target_modules = \"(q\"", "regular expression"});
  EXPECT_NE(message(lora({{"target_modules", {"lm_head"}}})).find("role head"), std::string::npos);
  EXPECT_NE(message(lora({{"layers_to_transform", {3}}})).find("from 0 to 2"), std::string::npos);
}

TEST_F(AdapterConfigFile, is_refused_beside_what_lacks_frozen_parameters) {
  EXPECT_NE(message(lora(), {{"run", {{"schedule", "paper"}}}}).find("model.adapter"),
            std::string::npos);
  EXPECT_NE(message(lora(), {{"checkpoint", {{"dir", "c"}}}}).find("model.adapter"),
            std::string::npos);
  const Json listed = {
      {"model", {{"config", nullptr}, {"adapter", "adapter_config.json"}, {"family", "llama"}}}};
  EXPECT_NE(message(lora(), listed).find("model.family"), std::string::npos);
}

}  // namespace
}  // namespace shardmark::test::adapter_config_test
