// SPDX-License-Identifier: Apache-2.0
// PEFT's adapter_config.json becomes the section `model.adapter`, selects modules as PEFT does, and
// is refused by the name of what the section cannot say.
#include <algorithm>

#include <core/plan/model/model_shape.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/json/json_source.hpp>
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
  EXPECT_EQ(loaded.deck.model.decoder->adapter.size.rank, 4);
  EXPECT_EQ(loaded.deck.model.decoder->adapter.size.scaling, 1.5);
  EXPECT_TRUE(std::any_of(loaded.findings.begin(), loaded.findings.end(),
                          [](const Finding& f) { return f.key == "model.adapter"; }));
  // q: 24 x 24, v: 12 x 24, in three layers
  EXPECT_EQ(trained_elems(loaded.deck), 3 * 4 * (24 + 24 + 24 + 12));
  const LoadedDeck none = load(lora(), {{"model", {{"adapter", "none"}}}});
  EXPECT_EQ(none.deck.model.decoder->adapter.size.rank, 0);
  EXPECT_EQ(load(lora({{"use_rslora", true}})).deck.model.decoder->adapter.size.scaling, 3);
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

// Each of these took the stack, all memory or longer than a run before patterns had bounds.
TEST_F(AdapterConfigFile, answers_hostile_patterns_at_once) {
  const auto refused = [&](const std::string& pattern) {
    expect_says(message(lora({{"target_modules", pattern}})), {"target_modules"});
    expect_says(message(lora({{"rank_pattern", {{pattern, 2}}}})), {"rank_pattern"});
  };
  refused(std::string(20000, '(') + "q_proj" + std::string(20000, ')'));
  refused("(.?){99999}q_proj");
  refused("(q_proj|k_proj)\\1");
  std::string many;
  for (int i = 0; i < 450; ++i) many += ".*";
  for (const std::string& pattern : {std::string("((.*)*)*x"), many + "x"})
    expect_says(message(lora({{"target_modules", pattern}})), {"no module has such a name"});
}

TEST_F(AdapterConfigFile, gives_modules_ranks_and_scalings_by_the_first_words_of_patterns) {
  const Json patterns = {{"rank_pattern", {{"layers.1.self_attn.q_proj", 2}, {"v_pro.", 8}}},
                         {"alpha_pattern", {{"q_proj", 5}}}};
  const auto factors = [&](const Json& more) {
    Json all = patterns;
    all.update(more);
    return load(lora(all)).deck.model.decoder->adapter.targets;
  };
  using Sizes = std::vector<LowRankSize>;
  const auto targets = factors(Json::object());
  ASSERT_EQ(targets.size(), 2);
  EXPECT_EQ(targets[0].factors, (Sizes{{4, 1.25}, {2, 2.5}, {4, 1.25}}));
  EXPECT_EQ(targets[1].factors, (Sizes{{8, 0.75}, {8, 0.75}, {8, 0.75}}));
  const auto by_roots = factors({{"use_rslora", true}});
  EXPECT_EQ(by_roots[0].factors[0], (LowRankSize{4, 2.5}));
  // A pattern is no part of a word.
  EXPECT_EQ(factors({{"rank_pattern", {{"proj", 2}}}})[0].factors[0].rank, 4);
}

TEST_F(AdapterConfigFile, trains_copies_of_modules_by_the_ends_of_their_names) {
  const auto trained = [&](const Json& names, const Json& more = Json::object()) {
    Json all = {{"modules_to_save", names}};
    all.update(more);
    return trained_elems(load(lora(all)).deck);
  };
  const std::int64_t lora_elems = trained_elems(load(lora()).deck);
  EXPECT_EQ(trained({"lm_head"}), lora_elems + 61 * 24);
  EXPECT_EQ(trained({"norm"}), lora_elems + 7 * 24);  // input_layernorm, too
  EXPECT_EQ(trained({"layers.1.mlp.up_proj"}), lora_elems + 24 * 40);
  // A copy has no factors, in whichever layers there are some.
  EXPECT_EQ(trained({"v_proj"}, {{"layers_to_transform", {0}}}), 4 * 48 + 3 * 24 * 12);
}

TEST_F(AdapterConfigFile, a_name_that_selects_nothing_is_said_with_every_answer) {
  const auto assumptions =
      load(lora({{"target_modules", {"q_proj", "kk_proj"}}, {"modules_to_save", {"score"}}}))
          .deck.assumptions;
  for (const std::string name : {"kk_proj", "score"})
    EXPECT_EQ(std::count_if(assumptions.begin(), assumptions.end(),
                            [&](const std::string& text) {
                              return text.find('"' + name + "\": no module") != std::string::npos;
                            }),
              1);
}

TEST_F(AdapterConfigFile, is_refused_for_patterns_and_copies_that_it_cannot_mean) {
  const auto refused = [&](const Json& more, const std::vector<std::string>& words) {
    expect_says(message(lora(more)), words);
  };
  refused({{"rank_pattern", {{"q_proj", 2.5}}}},
          {"adapter_config.json: rank_pattern", "from 1 to"});
  refused({{"rank_pattern", {{"q_proj", 2}, {".*q_proj", 3}}}},
          {"rank_pattern", "as \".*q_proj\""});
  refused({{"alpha_pattern", {{"q_proj", "2"}}}}, {"alpha_pattern", "numbers above 0"});
  refused({{"alpha_pattern", {{"(q", 2}}}}, {"alpha_pattern = \"(q\"", "regular expression"});
  refused({{"modules_to_save", "lm_head"}}, {"modules_to_save = \"lm_head\"", "list of names"});
  refused({{"modules_to_save", {"mlp"}}}, {"modules_to_save", "model.layers.0.mlp", "inside"});
  refused({{"modules_to_save", {"layers.2"}}}, {"modules_to_save", "model.layers.2", "inside"});
  refused({{"modules_to_save", {"proj"}}}, {"self_attn.q_proj", "factors, too"});
  refused({{"modules_to_save", {"lm_head"}}, {"ensure_weight_tying", true}},
          {"ensure_weight_tying"});
  refused({{"modules_to_save", {"q_proj", "v_proj"}}}, {"target_modules", "no module"});
}

TEST_F(AdapterConfigFile, is_refused_for_what_it_cannot_say) {
  EXPECT_NE(message(lora({{"use_dora", true}})).find("use_dora"), std::string::npos);
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
  const Json listed = {
      {"model", {{"config", nullptr}, {"adapter", "adapter_config.json"}, {"family", "llama"}}}};
  EXPECT_NE(message(lora(), listed).find("model.family"), std::string::npos);
}

}  // namespace
}  // namespace shardmark::test::adapter_config_test
