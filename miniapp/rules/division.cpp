// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deck/shipped_decks.hpp>
#include <io/json/json_source.hpp>
#include <io/keys/origin.hpp>
#include <miniapp/rules/division.hpp>

namespace shardmark {

using namespace nlohmann::literals;

namespace {

// Where a run writes, how long it lasts and how its ranks communicate changes no work.
constexpr std::array free_keys{"checkpoint.dir",
                               "checkpoint.keep",
                               "comm.backend",
                               "comm.timeout_s",
                               "deepspeed.zero_optimization.offload_optimizer.nvme_path",
                               "deepspeed.zero_optimization.offload_param.nvme_path",
                               "memory.allowance_mib",
                               "memory.device_gib",
                               "memory.host_gib",
                               "memory.nvme_gib",
                               "run.steps",
                               "run.time_limit_s",
                               "run.warmup",
                               "trace"};

// A storage deck may repeat its writes and reads more often, so that they take long enough.
constexpr std::string_view repetitions_key = "checkpoint.benchmark";

// Not compared by its value, but by the content of the file.
constexpr std::string_view data_key = "data.path";

// The arithmetic, the data and the checks never change.
constexpr std::array fixed_keys{"data",
                                "deepspeed.bf16",
                                "deepspeed.communication_data_type",
                                "deepspeed.fp16",
                                "deepspeed.gradient_clipping",
                                "deepspeed.optimizer",
                                "deepspeed.scheduler",
                                "deepspeed.train_batch_size",
                                "comm.delay_ms",
                                "congestion",
                                "expect",
                                "machine",
                                "perturb",
                                "run.compute",
                                "run.memory_mode",
                                "run.reductions",
                                "run.seed"};

bool is_or_below(std::string_view key, std::string_view parent) {
  return key.starts_with(parent) && (key.size() == parent.size() || key[parent.size()] == '.');
}

template<class Keys>
bool any_holds(const Keys& keys, std::string_view key) {
  return std::ranges::any_of(keys,
                             [&](std::string_view parent) { return is_or_below(key, parent); });
}

Division division_of_key(std::string_view key, const Json& shipped) {
  if (key == repetitions_key && shipped.is_number() && shipped > 0) return Division::as_is;
  if (any_holds(free_keys, key)) return Division::as_is;
  return any_holds(fixed_keys, key) ? Division::unranked : Division::tuned;
}

// Calls `found(key, value, shipped)` for each leaf that differs; null stands for a missing one. A
// section that only one of both has differs in each of its leaves.
template<class Found>
void differences(const Json& a, const Json& b, const std::string& key, const Found& found) {
  if (a == b) return;
  const auto section = [](const Json& json) { return json.is_object() || json.is_null(); };
  if (!section(a) || !section(b)) return found(key, a, b);
  std::set<std::string> names;
  for (const auto& item : a.items()) names.insert(item.key());
  for (const auto& item : b.items()) names.insert(item.key());
  if (names.empty()) return found(key, a, b);  // an empty section
  const auto leaf = [](const Json& json, const std::string& name) {
    return json.is_object() ? json.value(name, Json()) : Json();
  };
  for (const std::string& name : names)
    differences(leaf(a, name), leaf(b, name), key.empty() ? name : key + "." + name, found);
}

// Gives a key of a deck the shipped value. Sections that are empty then disappear.
void put_shipped(Json& deck, const std::string& key, const Json& shipped) {
  Json::json_pointer at;
  for (std::size_t from = 0; from <= key.size();) {
    const std::size_t dot = std::min(key.find('.', from), key.size());
    at /= key.substr(from, dot - from);
    from = dot + 1;
  }
  if (!shipped.is_null()) {
    deck[at] = shipped;
    return;
  }
  do {
    const std::string name = at.back();
    at.pop_back();
    deck.at(at).erase(name);
  } while (!at.empty() && deck.at(at).empty());
}

// Gives `other`, which means the same as `deck`, a shipped value if it still does so then. Returns
// whether it does. A text that is no whole deck means nothing.
bool takes_shipped(Json& other, const Json& deck, const std::string& key, const Json& shipped) {
  Json next = other;
  try {
    put_shipped(next, key, shipped);
    if (!same_meaning(next, deck)) return false;
  } catch (const DeckError&) {
    return false;
  } catch (const Json::exception&) {
    return false;
  }
  other = std::move(next);
  return true;
}

std::string value_text(const Json& value) {
  return value.is_null() ? "nothing" : brief(value);
}

std::string content_of(const FileIdentity& file) {
  return file.hash.empty() ? fmt::format("{} bytes", file.bytes)
                           : fmt::format("hash {} ({} bytes)", file.hash, file.bytes);
}

bool same_content(const FileIdentity& a, const FileIdentity& b) {
  return a == b && a.hash != "unreadable" && !a.hash.empty();
}

// The samples of a rank in each step, which a tuned run divides as it likes between micro-batches.
std::int64_t samples_per_rank(const Json& deck) {
  const Json config = deck.value("deepspeed", Json::object());
  const auto count = [&](const char* key) -> std::int64_t {
    const auto it = config.find(key);
    return it != config.end() && it->is_number() ? it->get<std::int64_t>() : 1;
  };
  return count("train_micro_batch_size_per_gpu") * count("gradient_accumulation_steps");
}

}  // namespace

std::vector<ChangedKey> changed_keys(const UsedDeck& deck, const UsedDeck& shipped) {
  std::vector<ChangedKey> changes;
  const bool reads_text = deck.data && shipped.data;
  Json equivalent = deck.text;
  differences(deck.text, shipped.text, "",
              [&](const std::string& key, const Json& value, const Json& other) {
                const Division division = division_of_key(key, other);
                if (division == Division::as_is || (key == data_key && reads_text)) return;
                if (takes_shipped(equivalent, deck.text, key, other)) return;
                changes.push_back({key, value, other, division,
                                   fmt::format("{}: {} instead of {}", key, value_text(value),
                                               value_text(other))});
              });
  if (reads_text && !same_content(*deck.data, *shipped.data))
    changes.push_back({std::string(data_key), deck.text.value("/data/path"_json_pointer, Json()),
                       shipped.text.value("/data/path"_json_pointer, Json()), Division::unranked,
                       fmt::format("{}: a text with {} instead of the shipped one with {}",
                                   data_key, content_of(*deck.data), content_of(*shipped.data))});
  return changes;
}

bool same_deck(const UsedDeck& a, const UsedDeck& b) {
  return (a.text == b.text && a.data == b.data) || changed_keys(a, b).empty();
}

Judged judge_division(const UsedDeck& deck, const UsedDeck* shipped) {
  if (shipped == nullptr) return {Division::unranked, {"the deck is not one of the shipped decks"}};
  Judged judged;
  for (ChangedKey& change : changed_keys(deck, *shipped)) {
    judged.division = std::max(judged.division, change.division);
    judged.reasons.push_back(std::move(change.reason));
  }
  if (const auto samples = samples_per_rank(deck.text), usual = samples_per_rank(shipped->text);
      samples != usual &&
      !deck.text.value("deepspeed", Json::object()).contains("train_batch_size")) {
    judged.division = Division::unranked;
    judged.reasons.push_back(
        fmt::format("{} samples per rank and step instead of {}", samples, usual));
  }
  return judged;
}

std::optional<FileIdentity> data_of(const Json& deck, const std::string& path) {
  const Json source = deck.value("/data/source"_json_pointer, Json());
  return source == "file" ? std::optional(identify_file(path)) : std::nullopt;
}

std::optional<UsedDeck> shipped_deck_of(const Json& deck) {
  if (!deck.is_object() || !deck.contains("name") || !deck["name"].is_string()) return std::nullopt;
  for (const ShippedDeck& shipped : shipped_decks()) {
    if (shipped.name != deck["name"].get<std::string>()) continue;
    UsedDeck found{read_json_file(shipped.path, JsonRules::deck), std::nullopt};
    const Json path = found.text.value("/data/path"_json_pointer, Json(""));
    found.data = data_of(
        found.text, Origin(shipped.path).resolve(path.is_string() ? path.get<std::string>() : ""));
    return found;
  }
  return std::nullopt;
}

}  // namespace shardmark
