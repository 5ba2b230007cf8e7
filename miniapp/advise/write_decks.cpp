// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <io/deck/deck_reader.hpp>
#include <miniapp/advise/write_decks.hpp>

namespace shardmark {
namespace {

using DeckJson = nlohmann::ordered_json;

void write_file(const std::filesystem::path& path, const DeckJson& json) {
  std::ofstream out(path);
  out << json.dump(2) << '\n';
  out.close();
  if (!out)
    throw IoError(fmt::format("{}: cannot be written: give another --write", path.string()));
}

}  // namespace

std::vector<std::string> write_decks(const Advice& advice, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw IoError(
        fmt::format("{}: cannot be made: {}: give another --write", folder, error.message()));
  std::vector<std::string> written;
  for (std::size_t i = 0; i < advice.best_of_stage.size(); ++i) {
    const Candidate& c = advice.best_of_stage[i];
    std::vector<std::string> sets = advice.question.sets;
    for (const std::string& s : sets_of(c.changes)) sets.push_back(s);
    const LoadedDeck loaded = read_deck(advice.question.deck, sets, DeckUse::plan);
    DeckJson deck = DeckJson::parse(loaded.used_json);
    // Paths of a deck start from its own folder.
    if (!loaded.deck.data.path.empty() && deck.contains("data") && deck["data"].contains("path"))
      deck["data"]["path"] = std::filesystem::absolute(loaded.deck.data.path).string();
    const std::string name = fmt::format("{}stage{}", i == 0 ? "best-" : "", c.stage);
    const std::filesystem::path base(folder);
    write_file(base / (name + ".json"), deck);
    written.push_back((base / (name + ".json")).string());
    if (!traits(c.schedule).follows_deepspeed) continue;
    write_file(base / (name + "-deepspeed.json"), deck["deepspeed"]);
    written.push_back((base / (name + "-deepspeed.json")).string());
  }
  return written;
}

}  // namespace shardmark
