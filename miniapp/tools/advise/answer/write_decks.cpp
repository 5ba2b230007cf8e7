// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <core/plan/interpret/print.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/complete_config.hpp>
#include <io/deepspeed/config.hpp>
#include <io/files/hash.hpp>
#include <miniapp/tools/advise/answer/torch_files.hpp>
#include <miniapp/tools/advise/answer/write_decks.hpp>

namespace shardmark {
namespace {

namespace fs = std::filesystem;
using DeckJson = nlohmann::ordered_json;

void write_text(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) throw IoError(fmt::format("{}: cannot be written: give another --write", path));
}

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw IoError(
        fmt::format("{}: cannot be made: {}: give another --write", folder, error.message()));
}

// What one candidate's files contain.
struct Written {
  LoadedDeck loaded;
  Batch batch;
  DeckJson deepspeed, deck;
};

Written contents(const AdviseCase& question, const Candidate& c) {
  std::vector<std::string> sets = question.sets;
  for (const std::string& s : sets_of(c.changes)) sets.push_back(s);
  Written w;
  w.loaded = read_deck(question.deck, sets, DeckUse::plan);
  const Deck& deck = w.loaded.deck;
  w.batch = infer_batch(deck.zero, question.ranks, deck.path);
  w.deepspeed = complete_deepspeed(Json::parse(w.loaded.deepspeed_json), deck.zero, w.batch);
  w.deck = DeckJson::parse(w.loaded.used_json);
  w.deck["name"] = deck.name;
  w.deck["deepspeed"] = w.deepspeed;
  w.deck.erase("hf");  // its values are in the config and in the section run
  if (deck.run.reentrant)
    w.deck["run"]["activation_checkpointing"] = "reentrant";
  else
    w.deck["run"]["activation_checkpointing"] = deck.run.activation_checkpointing;
  // Paths of a deck start from its own folder.
  if (!deck.data.path.empty() && w.deck.contains("data") && w.deck["data"].contains("path"))
    w.deck["data"]["path"] = fs::absolute(deck.data.path).string();
  return w;
}

std::string plan_hash(const AdviseCase& question, const std::string& deck,
                      const std::vector<std::string>& sets) {
  AdviseCase again = question;
  again.deck = deck;
  again.sets = sets;
  return hash_hex(print_text(program_of(again, DeckChanges{})));
}

// What was written must be what was advised; anything else is a defect of this program.
void require_plan(const std::string& wanted, const AdviseCase& question, const std::string& deck,
                  const std::vector<std::string>& sets, const std::string& file) {
  if (plan_hash(question, deck, sets) != wanted)
    throw PlanError(file + ": read back, its plan is not that of the advice");
}

}  // namespace

std::vector<std::string> write_decks(const Advice& advice, const std::string& folder) {
  make_folder(folder);
  const AdviseCase& question = advice.question;
  std::vector<std::string> written;
  for (std::size_t i = 0; i < advice.best_of_stage.size(); ++i) {
    const Candidate& c = advice.best_of_stage[i];
    const Written w = contents(question, c);
    const std::string base =
        (fs::path(folder) / fmt::format("{}stage{}", i == 0 ? "best-" : "", c.stage)).string();
    const auto leave = [&](const std::string& ending, const std::string& text) {
      write_text(base + ending, text);
      written.push_back(base + ending);
      return base + ending;
    };
    const std::string deck = leave(".json", w.deck.dump(2) + "\n");
    const std::string wanted = hash_hex(print_text(program_of(question, c.changes)));
    require_plan(wanted, question, deck, {}, deck);
    if (traits(c.schedule).follows_deepspeed) {
      const std::string config = leave("-deepspeed.json", w.deepspeed.dump(2) + "\n");
      require_plan(wanted, question, deck, {"deepspeed=" + fs::absolute(config).string()}, config);
    } else if (traits(c.schedule).follows_torch) {
      const TorchAdvice torch{w.loaded.deck, w.batch, question.ranks};
      const DeckJson json = torch_json(torch);
      const std::string file = leave("-torch.json", json.dump(2) + "\n");
      require_plan(wanted, question, deck, {"torch=" + json["torch"].dump()}, file);
      leave("-torch.py", torch_python(torch));
    }
  }
  return written;
}

}  // namespace shardmark
