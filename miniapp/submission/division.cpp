// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <set>

#include <fmt/core.h>

#include <io/deck/shipped_decks.hpp>
#include <io/json/json_source.hpp>
#include <miniapp/submission/division.hpp>

namespace shardmark {
namespace {

// Where a run writes, how long it lasts and how its ranks communicate changes no work.
constexpr std::array free_keys{"checkpoint.dir",   "checkpoint.keep",      "comm.backend",
                               "comm.timeout_s",   "memory.allowance_mib", "memory.device_gib",
                               "memory.host_gib",  "memory.nvme_gib",      "run.steps",
                               "run.time_limit_s", "run.warmup",           "trace"};

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
  return std::any_of(keys.begin(), keys.end(),
                     [&](std::string_view parent) { return is_or_below(key, parent); });
}

Division division_of_key(std::string_view key) {
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

std::string_view to_string(Division division) {
  switch (division) {
    case Division::as_is: return "as-is";
    case Division::tuned: return "tuned";
    case Division::unranked: return "unranked";
  }
  return "?";
}

Judged judge_division(const Json& deck, const Json* shipped) {
  if (shipped == nullptr) return {Division::unranked, {"the deck is not one of the shipped decks"}};
  Judged judged;
  differences(deck, *shipped, "",
              [&](const std::string& key, const Json& value, const Json& usual) {
                const Division division = division_of_key(key);
                if (division == Division::as_is) return;
                judged.division = std::max(judged.division, division);
                judged.reasons.push_back(fmt::format("{}: {} instead of {}", key,
                                                     value.is_null() ? "nothing" : brief(value),
                                                     usual.is_null() ? "nothing" : brief(usual)));
              });
  if (const auto samples = samples_per_rank(deck), usual = samples_per_rank(*shipped);
      samples != usual && !deck.value("deepspeed", Json::object()).contains("train_batch_size")) {
    judged.division = Division::unranked;
    judged.reasons.push_back(
        fmt::format("{} samples per rank and step instead of {}", samples, usual));
  }
  return judged;
}

std::map<std::string, Json> changed_work(const Json& deck, const Json& shipped) {
  std::map<std::string, Json> changed;
  differences(deck, shipped, "", [&](const std::string& key, const Json& value, const Json&) {
    if (!any_holds(free_keys, key)) changed[key] = value;
  });
  return changed;
}

std::optional<Json> shipped_deck_of(const Json& deck) {
  if (deck.is_object() && deck.contains("name") && deck["name"].is_string())
    for (const ShippedDeck& shipped : shipped_decks())
      if (shipped.name == deck["name"].get<std::string>())
        return read_json_file(shipped.path, JsonRules::deck);
  return std::nullopt;
}

Judged division_of(const Json& deck) {
  const std::optional<Json> shipped = shipped_deck_of(deck);
  return judge_division(deck, shipped ? &*shipped : nullptr);
}

}  // namespace shardmark
