// SPDX-License-Identifier: Apache-2.0
#include <filesystem>
#include <fstream>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <core/plan/interpret/print.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/hash.hpp>
#include <miniapp/tools/advise/answer/print.hpp>
#include <miniapp/tools/advise/answer/write_decks.hpp>

namespace shardmark {
namespace {

namespace fs = std::filesystem;
using DeckJson = nlohmann::ordered_json;

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail_io(folder, "cannot be made", error.message(), "give another --write");
}

// What one candidate's files contain.
struct Written {
  LoadedDeck loaded;
  Batch batch;
  DeckJson deepspeed, deck;
};

Written contents(const AdviseCase& question, const Candidate& c) {
  Written w;
  w.loaded = changed_deck(question, c.changes);
  const Deck& deck = w.loaded.deck;
  w.batch = infer_batch(deck, question.ranks);
  w.deepspeed = complete_deepspeed(Json::parse(w.loaded.deepspeed_json), deck.zero, w.batch);
  w.deck = DeckJson::parse(w.loaded.used_json);
  w.deck["name"] = deck.name;
  w.deck["deepspeed"] = w.deepspeed;
  w.deck.erase("hf");  // its values are in the config and in the section run
  w.deck["run"]["activation_checkpointing"] =
      deck.run.reentrant ? DeckJson("reentrant") : DeckJson(deck.run.activation_checkpointing);
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

// The path of the files of a candidate of `best_of_stage`, without their endings.
std::string base_of(const Advice& advice, std::size_t index, const std::string& folder) {
  const int stage = advice.best_of_stage[index].stage;
  return (fs::path(folder) / fmt::format("{}stage{}", index == 0 ? "best-" : "", stage)).string();
}

// Whether the candidate fits without recomputation as well; empty: it does, else what it lacks.
std::string lack_without_recomputation(const Advice& advice, const Candidate& c) {
  DeckChanges changes = c.changes;
  for (auto& [key, value] : changes)
    if (key.ends_with("activation_checkpointing") || key.ends_with("gradient_checkpointing"))
      value = "false";
  const Candidate without = evaluate(advice.question, changes, true);
  return without.fits ? "" : without.refusal;
}

// What the files of a candidate do not say and the training script must do.
std::string script_note(const Advice& advice, const Candidate& c, const std::string& config) {
  if (!c.recomputes || !traits(c.schedule).follows_deepspeed) return "";
  const std::string lack = lack_without_recomputation(advice, c);
  return fmt::format(
      "{} counts on activation recomputation, which no DeepSpeed config turns on: the training "
      "script "
      "must call torch.utils.checkpoint or deepspeed.checkpointing.checkpoint for each block, in "
      "Transformers model.gradient_checkpointing_enable(). {}\n",
      fs::path(config).filename().string(),
      lack.empty() ? "Without it, it fits too, and takes the memory of all activations."
                   : fmt::format("Without it, it does not fit: {}.", lack));
}

}  // namespace

void write_text(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) throw IoError(fmt::format("{}: cannot be written: give another --write", path));
}

std::string best_deck(const Advice& advice, const std::string& folder) {
  return base_of(advice, 0, folder) + ".json";
}

WrittenAdvice write_decks(const Advice& advice, const std::string& folder) {
  make_folder(folder);
  const AdviseCase& question = advice.question;
  WrittenAdvice all;
  std::vector<std::string>& written = all.files;
  for (std::size_t i = 0; i < advice.best_of_stage.size(); ++i) {
    const Candidate& c = advice.best_of_stage[i];
    const Written w = contents(question, c);
    const std::string base = base_of(advice, i, folder);
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
      all.notes += script_note(advice, c, config);
    } else if (traits(c.schedule).follows_torch) {
      const TorchAdvice torch{w.loaded.deck, w.batch, question.ranks};
      const DeckJson json = torch_json(torch);
      const std::string file = leave("-torch.json", json.dump(2) + "\n");
      require_plan(wanted, question, deck, {"torch=" + json["torch"].dump()}, file);
      leave("-torch.py", torch_python(torch));
    }
  }
  all.summary = (fs::path(folder) / "advice.txt").string();
  write_text(all.summary, verdict(advice) + "\n" + (all.notes.empty() ? "" : "\n" + all.notes));
  return all;
}

}  // namespace shardmark
