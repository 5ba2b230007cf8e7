// SPDX-License-Identifier: Apache-2.0
// The recorded models of transformers, tests/data/hf_models.json, as decks.
#pragma once

#include <fstream>
#include <string>

#include <nlohmann/json.hpp>

#include <io/deck/deck_reader.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test {

/// All cases: config, modules and reference.
inline const nlohmann::json& hf_cases() {
  static const nlohmann::json all = [] {
    std::ifstream file(std::string(SHARDMARK_TESTS) + "/data/hf_models.json");
    return nlohmann::json::parse(file).at("cases");
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
  const json deck = {
      {"name", "hf"},
      {"model", {{"config", "config.json"}, {"sequence", r.at("sequence")}}},
      {"data", {{"source", "uniform"}}},
      {"deepspeed",
       {{"train_batch_size", r.at("batch")},
        {"gradient_clipping", r.at("gradient_clipping")},
        {"zero_optimization", {{"stage", stage}}},
        {"optimizer", {{"type", "AdamW"}, {"params", parameters}}}}},
      {"run", {{"steps", r.at("steps")}, {"seed", r.at("seed")}, {"reductions", "ordered"}}}};
  return read_deck(folder.write("deck.json", deck.dump()), {}, DeckUse::run).deck;
}

}  // namespace shardmark::test
