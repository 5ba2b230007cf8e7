// SPDX-License-Identifier: Apache-2.0
// The recorded models of transformers, tests/data/hf_models.json, and those that PEFT adapted,
// hf_adapters.json, as decks.
#pragma once

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include <io/deck/deck_reader.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test {

/// The cases of a file: config, modules and reference.
inline nlohmann::json hf_cases_of(const std::string& name) {
  std::ifstream file(std::string(SHARDMARK_TESTS) + "/data/" + name);
  return nlohmann::json::parse(file).at("cases");
}
/// All cases of the models as they are, and of those with adapters.
inline const nlohmann::json& hf_cases() {
  static const nlohmann::json all = [] {
    nlohmann::json cases = hf_cases_of("hf_models.json");
    for (const nlohmann::json& c : hf_cases_of("hf_adapters.json")) cases.push_back(c);
    return cases;
  }();
  return all;
}

/// Returns the deck that trains a case as its reference was trained. Each rank has a folder of its
/// own.
inline Deck hf_deck(const nlohmann::json& c, int stage, const ScratchFolder& folder) {
  using nlohmann::json;
  const json& r = c.at("reference");
  folder.write("config.json", c.at("config").dump());
  const json& o = r.at("optimizer");
  const json parameters = {{"lr", o.at("lr")},
                           {"betas", o.at("betas")},
                           {"eps", o.at("eps")},
                           {"weight_decay", o.at("weight_decay")}};
  json deck = {
      {"name", "hf"},
      {"model", {{"config", "config.json"}, {"sequence", r.at("sequence")}}},
      {"data", {{"source", "uniform"}}},
      {"deepspeed",
       {{"train_batch_size", r.at("batch")},
        {"gradient_clipping", r.at("gradient_clipping")},
        {"zero_optimization", {{"stage", stage}}},
        {"optimizer", {{"type", "AdamW"}, {"params", parameters}}}}},
      {"run", {{"steps", r.at("steps")}, {"seed", r.at("seed")}, {"reductions", "ordered"}}}};
  if (c.contains("adapter")) {
    folder.write("adapter.json", c.at("adapter").dump());
    deck["model"]["adapter"] = "adapter.json";
  }
  return read_deck(folder.write("deck.json", deck.dump()), {}, DeckUse::run).deck;
}

}  // namespace shardmark::test
