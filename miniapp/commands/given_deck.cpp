// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <core/text.hpp>
#include <io/deck/deck_keys.hpp>
#include <miniapp/commands/given_deck.hpp>
#include <miniapp/commands/help/help_page.hpp>

namespace shardmark {
namespace {

namespace fs = std::filesystem;
using DeckJson = nlohmann::ordered_json;

// "llama-2-13b" of "llama-2-13b/config.json": all models call their file config.json.
std::string name_of_model(const std::string& path) {
  const std::string name = name_of_file(path);
  const std::string folder = fs::absolute(path).lexically_normal().parent_path().filename();
  return name == "config" && !folder.empty() ? folder : name;
}

// The deck of a model config and a DeepSpeed config. Without a DeepSpeed config, the deck has
// DeepSpeed's defaults.
std::string deck_of_model(const DeckArguments& a) {
  DeckJson deck{{"name", name_of_model(a.model)},
                {"model", {{"config", fs::absolute(a.model).string()}}},
                {"data", {{"source", "uniform"}}},
                {"run", {{"steps", 20}, {"warmup", 3}}}};
  if (!a.deepspeed.empty()) deck["deepspeed"] = fs::absolute(a.deepspeed).string();
  return deck.dump(-1, ' ', true, DeckJson::error_handler_t::replace);
}

bool sets_any(const DeckArguments& a, std::string_view section) {
  return std::ranges::any_of(a.sets,
                             [&](const std::string& set) { return set.starts_with(section); });
}

void require_one_model(const DeckArguments& a, std::string_view command) {
  if (a.deck.empty() && a.model.empty())
    throw DeckError(
        fmt::format("{}: the model is missing: give a deck, or a config.json with --model FILE and "
                    "a DeepSpeed config with --deepspeed FILE",
                    command));
  if (!a.deck.empty() && !a.model.empty())
    throw DeckError(fmt::format(
        "--model {}: beside the deck {}, which has a model of its own: give one of the two (a "
        "DeepSpeed config is given with --deepspeed FILE)",
        a.model, a.deck));
  if (!a.model.empty() && a.deepspeed.empty() && a.batch == 0 && !sets_any(a, "deepspeed"))
    throw DeckError(fmt::format(
        "{}: the DeepSpeed config is missing: give --deepspeed FILE, or at least a batch and a "
        "type, for example --batch 256 --set deepspeed.bf16.enabled=true",
        command));
}

// Adds the key of an option. Beside `--set` of that key, a reader would have to guess which counts.
void set_by_option(GivenDeck& given, const DeckArguments& a, std::string_view option, int value,
                   const std::string& key) {
  for (const std::string& set : a.sets)
    if (set.starts_with(key + "="))
      throw DeckError(fmt::format("{} {}: --set {} gives the same key: give one of the two", option,
                                  value, set));
  given.sets.push_back(fmt::format("{}={}", key, value));
}

}  // namespace

GivenDeck given_deck(const DeckArguments& a, std::string_view command) {
  require_one_model(a, command);
  GivenDeck given{a.deck.empty() ? deck_of_model(a) : a.deck, {}};
  if (!a.deck.empty() && !a.deepspeed.empty())
    given.sets.push_back("deepspeed=" + fs::absolute(a.deepspeed).string());
  if (a.sequence > 0)
    set_by_option(given, a, "--sequence", a.sequence, key_path<&ModelSpec::sequence>());
  if (a.batch > 0) {
    set_by_option(given, a, "--batch", a.batch, key_path<&ZeroSpec::train_batch_size>());
    given.sets.push_back(key_path<&ZeroSpec::accumulation_steps>() + "=null");
  }
  given.sets.insert(given.sets.end(), a.sets.begin(), a.sets.end());
  return given;
}

int ranks_of_a_node(int given, const Machine& machine, int otherwise) {
  if (given > 0) return given;
  return machine.node.ranks > 0 ? machine.node.ranks : otherwise;
}

std::string deck_words(const DeckArguments& a) {
  std::string text = a.deck.empty() ? "--model " + shell_word(a.model) : shell_word(a.deck);
  if (!a.deepspeed.empty()) text += " --deepspeed " + shell_word(a.deepspeed);
  if (a.sequence > 0) text += fmt::format(" --sequence {}", a.sequence);
  if (a.batch > 0) text += fmt::format(" --batch {}", a.batch);
  for (const std::string& set : a.sets) text += " --set " + shell_word(set);
  return text;
}

std::string shell_word(const std::string& text) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./=,:+-@%";
  return !text.empty() && text.find_first_not_of(plain) == std::string::npos ? text
                                                                             : shell_quoted(text);
}

}  // namespace shardmark
