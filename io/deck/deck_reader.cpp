// SPDX-License-Identifier: Apache-2.0
// Reads a deck, one line per step: the text, `--set`, the sections, and the rules that join
// sections.
#include <filesystem>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/text.hpp>
#include <io/deck/deck_keys.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deck/deck_sections.hpp>
#include <io/deck/shipped_decks.hpp>
#include <io/deepspeed/config.hpp>
#include <io/deepspeed/schema/key_table.hpp>
#include <io/files/hash.hpp>
#include <io/hf/accelerate.hpp>
#include <io/hf/config_filler.hpp>
#include <io/hf/hf_arguments.hpp>
#include <io/hf/model_config.hpp>
#include <io/keys/overrides.hpp>

namespace shardmark {
namespace {

bool is_yaml(const std::string& path) {
  return path.ends_with(".yaml") || path.ends_with(".yml");
}

Json read_config(const std::string& path) {
  return read_json_file(path, is_yaml(path) ? JsonRules::yaml : JsonRules::deepspeed);
}

// Replaces the path of a DeepSpeed config, or of Accelerate's config, by the content of that file.
void inline_deepspeed(Json& deck, Origin& origin, std::string& config_file) {
  const auto it = deck.find("deepspeed");
  if (it == deck.end()) return;
  if (it->is_string()) {
    config_file = origin.resolve(it->get<std::string>());
    *it = read_config(config_file);
    if (is_yaml(config_file) && !is_accelerate_config(*it))
      throw DeckError(
          fmt::format("{}: this YAML file is no config of Accelerate, which has the section "
                      "deepspeed_config, and DeepSpeed reads JSON: write the config as JSON",
                      config_file));
    origin.section_file("deepspeed", config_file);
  }
  // Accelerate's config may name a DeepSpeed config, whose path starts from its own folder here.
  const Json::json_pointer inner("/deepspeed_config/deepspeed_config_file");
  if (!it->is_object() || !it->contains("deepspeed_config") ||
      !(*it)["deepspeed_config"].is_object() || !it->contains(inner) || !(*it)[inner].is_string())
    return;
  const std::string& from = config_file.empty() ? origin.deck_file() : config_file;
  (*it)[inner] = read_config(
      (std::filesystem::path(from).parent_path() / (*it)[inner].get<std::string>()).string());
}

// A path in place of the section `model` means {"config": path}.
void name_model_config(Json& deck, Origin& origin) {
  const auto it = deck.find("model");
  if (it == deck.end() || !it->is_string()) return;
  origin.section_file("model", origin.resolve(it->get<std::string>()));
  *it = Json{{"config", *it}};
}

// Replaces configs of Hugging Face by the section that they and the keys beside them amount to.
void translate_model(Json& deck, Origin& origin) {
  const auto it = deck.find("model");
  if (it == deck.end() || !it->is_object()) return;
  if (!it->contains("config")) return translate_adapter(origin, {}, *it);
  const Json path = (*it)["config"];
  if (!path.is_string())
    origin.refuse("model.config", path, "must be the path of a model config of Hugging Face");
  if (const auto hf = deck.find("hf"); hf != deck.end() && !it->contains("sequence"))
    if (const auto sequence = hf_sequence(origin, *hf)) {
      (*it)["sequence"] = sequence->length;
      origin.note(FindingKind::derived, "model.sequence",
                  fmt::format("{}: {}", sequence->length, sequence->name));
    }
  const std::string file = origin.resolve(path.get<std::string>());
  *it = model_from_config(origin, file, *it);
  translate_adapter(origin, file, *it);
}

// The trainer's arguments that say what the sections `model` and `run` say too.
void join_hf(const HfArguments& hf, const Json& section, const Json* run, Deck& deck,
             Origin& origin) {
  const auto sequence = hf_sequence(origin, section);
  if (sequence && deck.model.family == Family::list)
    origin.note(FindingKind::no_effect, sequence->name,
                fmt::format("{}: a model of family \"list\" has no sequence", sequence->length));
  else if (sequence && sequence->length != deck.model.sequence)
    origin.refuse(sequence->name, sequence->length,
                  fmt::format("model.sequence is {}: give one of the two", deck.model.sequence));
  if (!hf.checkpointing) return;
  const std::string key = "hf." + hf.checkpointing_name;
  const bool says = run != nullptr && run->contains("activation_checkpointing");
  if (says && deck.run.activation_checkpointing != *hf.checkpointing)
    origin.refuse(key, *hf.checkpointing,
                  fmt::format("run.activation_checkpointing is {}: give one of the two",
                              deck.run.activation_checkpointing));
  if (says || !*hf.checkpointing) return;
  deck.run.activation_checkpointing = true;
  deck.run.reentrant = hf.reentrant;
  origin.note(FindingKind::derived, "run.activation_checkpointing",
              fmt::format("{}: {}", hf.reentrant ? "\"reentrant\"" : "true", key));
}

// A deck that a command makes of its arguments is given as its text. Its relative paths start from
// the current folder, and messages call it by this name.
constexpr const char* arguments_deck = "arguments";

bool is_text(const std::string& deck) {
  return deck.starts_with('{');
}

FoundFile find_deck_or_text(const std::string& deck) {
  return is_text(deck) ? FoundFile{arguments_deck, false} : find_deck(deck);
}

Json read_text(const std::string& given, const std::vector<std::string>& sets, Origin& origin,
               std::string& config_file) {
  Json deck = is_text(given) ? parse_json(given, arguments_deck, JsonRules::deck)
                             : read_json_file(origin.deck_file(), JsonRules::deck);
  inline_deepspeed(deck, origin, config_file);
  name_model_config(deck, origin);
  for (const std::string& argument : sets) {
    const Override change = parse_override(argument);
    apply_override(deck, change);
    origin.overridden(change.key);
    if (change.key == "deepspeed") {  // the value no longer comes from the file that the deck names
      config_file.clear();
      origin.section_file("deepspeed", "");
    }
    inline_deepspeed(deck, origin, config_file);
    name_model_config(deck, origin);
  }
  translate_model(deck, origin);
  return deck;
}

std::string printed(const Json& text) {
  return text.dump(2, ' ', true, Json::error_handler_t::replace);
}

// What helps where the model is missing, because the file may be one of those that a deck names.
std::string what_to_give(const Json& text) {
  if (text.contains("model_type"))
    return "this is a model's config.json, not a deck: name it in a deck, \"model\": {\"config\": "
           "FILE}; `shardmark predict` and `shardmark advise` take it with --model FILE";
  for (const char* key :
       {zero_section, "train_micro_batch_size_per_gpu", "train_batch_size", "bf16", "fp16"})
    if (text.contains(key))
      return "this is a DeepSpeed config, not a deck: name it in a deck, \"deepspeed\": FILE; "
             "`shardmark predict` and `shardmark advise` take it with --deepspeed FILE";
  return "give the section that says what to train";
}

Deck read_sections(const Json& text, Origin& origin, LoadedDeck& loaded, std::optional<int> world) {
  const Json empty = Json::object();
  KeyReader reader(origin, text, "");
  const auto section = [&](const char* name) {
    const Json* value = reader.any(name);
    return KeyReader(origin, value ? *value : empty, name);
  };
  Deck deck;
  deck.path = origin.deck_file();
  deck.batch_file = origin.file_of("deepspeed");
  deck.name = name_of_file(deck.path);
  reader.text("name", deck.name);
  read_trace(reader, loaded.output.trace);
  if (!reader.any("model")) origin.missing("model", what_to_give(text));
  read_run(section("run"), deck);
  read_model(section("model"), deck);
  check_tensors(deck);
  if (reader.any("data")) read_data(section("data"), deck);
  std::optional<HfArguments> hf;
  if (const Json* given = reader.any("hf")) {
    hf = read_hf(section("hf"));
    join_hf(*hf, *given, reader.any("run"), deck, origin);
  }
  const Json* given = reader.any("deepspeed");
  const Json config =
      fill_config(origin, given ? *given : empty, {hf ? &*hf : nullptr, &deck.model, world});
  deck.zero = read_deepspeed(origin, config, deck.run.schedule, {&deck.model, world});
  loaded.deepspeed_json = printed(config);
  read_torch(section("torch"), deck);
  if (const Json* torch = reader.any("torch");
      torch != nullptr && !traits(deck.run.schedule).follows_torch)
    origin.note(FindingKind::no_effect, "torch",
                fmt::format("affects only the schedule \"torch\", not \"{}\"",
                            to_string(deck.run.schedule)));
  apply_torch(deck, origin);
  loaded.output.deepspeed = read_deepspeed_log(origin, config);
  read_plain("comm", section("comm"), deck);
  read_plain("memory", section("memory"), deck);
  read_plain("machine", section("machine"), deck);
  if (reader.any("perturb")) read_perturb(section("perturb"), deck);
  if (reader.any("congestion")) read_congestion(section("congestion"), deck);
  if (reader.any("checkpoint")) read_checkpoint(section("checkpoint"), deck);
  read_plain("expect", section("expect"), deck);
  reader.finish(paths_named);
  return deck;
}

}  // namespace

LoadedDeck read_deck(const std::string& path, const std::vector<std::string>& sets, DeckUse use,
                     std::optional<int> world) {
  const FoundFile found = find_deck_or_text(path);
  Origin origin(found.path, found.by_name);
  LoadedDeck loaded;
  const Json text = read_text(path, sets, origin, loaded.config_file);
  loaded.deck = read_sections(text, origin, loaded, world);
  check_together(loaded.deck, origin);
  check_sizes(loaded.deck, origin);
  if (use == DeckUse::plan && loaded.deck.model.fit && !loaded.deck.memory.budget_gib[0])
    origin.refuse("model.fit", *loaded.deck.model.fit,
                  "needs memory.device_gib: only `run` uses the free memory of this machine");
  for (Finding& lack : missing_to_run(loaded.deck)) {
    if (use == DeckUse::run)
      throw DeckError(fmt::format("{}: {}", origin.place(lack.key), lack.text));
    origin.note(FindingKind::warning, lack.key, "needed by `run`: " + lack.text);
  }
  loaded.used_json = printed(text);
  loaded.hash = hash_hex(loaded.used_json);
  loaded.sets = sets;
  loaded.findings = std::move(origin.findings());
  for (const Finding& f : loaded.findings) {
    const bool assumed = f.kind == FindingKind::assumed;
    if (assumed || f.kind == FindingKind::ignored)
      loaded.deck.assumptions.push_back(
          fmt::format("{}{} {}", f.key, assumed ? " =" : ":", f.text));
  }
  return loaded;
}

bool same_meaning(const Json& a, const Json& b) {
  const auto meaning = [](const Json& text) {
    Origin origin("deck.json");
    LoadedDeck loaded;
    loaded.deck = read_sections(text, origin, loaded, std::nullopt);
    loaded.deck.assumptions.clear();  // they say what the text does not state
    return std::pair(std::move(loaded.deck), std::move(loaded.output));
  };
  return a == b || meaning(a) == meaning(b);
}

std::string deck_text(const std::string& path, const std::vector<std::string>& sets) {
  Origin origin(find_deck_or_text(path).path);
  std::string config_file;
  return printed(read_text(path, sets, origin, config_file));
}

Deck load_deck(const std::string& path, const std::vector<std::string>& sets) {
  return read_deck(path, sets, DeckUse::run).deck;
}

}  // namespace shardmark
