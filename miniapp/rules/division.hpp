// SPDX-License-Identifier: Apache-2.0
// The division of a run under the run rules (docs/run-rules.md): what its deck changes, compared
// with the shipped deck of the same name.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <core/enum_array.hpp>
#include <io/files/hash.hpp>

namespace shardmark {

/// From the strictest to the freest. `unranked` runs cannot be compared with others.
enum class Division : std::uint8_t { as_is, tuned, unranked };
template<>
inline constexpr auto value_names<Division> = name_list("as-is", "tuned", "unranked");

/// A division, and what moved the run down to it.
struct Judged {
  Division division = Division::as_is;
  std::vector<std::string> reasons;  // "deepspeed.zero_optimization.stage: 2 instead of 3"
};

/// A deck, and the content of the file that it trains on.
struct UsedDeck {
  nlohmann::json text;               // LoadedDeck::used_json
  std::optional<FileIdentity> data;  // empty: it trains on no file
};

/// One key whose meaning differs from the shipped deck's, unless any run may change it.
struct ChangedKey {
  std::string key;
  nlohmann::json value, shipped;  // null: the deck lacks the key
  Division division;              // to which the change moves a run
  std::string reason;             // with both values, in one sentence
};

/// Compares a deck with the shipped one by what they mean: a default that only one of them writes
/// down is no change, and neither is another path to a text of the same content. Pure.
std::vector<ChangedKey> changed_keys(const UsedDeck& deck, const UsedDeck& shipped);

/// Whether two decks differ in nothing but what any run may change: runs of both did the same.
/// Pure.
bool same_deck(const UsedDeck& a, const UsedDeck& b);

/// Judges a deck by its difference from the shipped deck of the same name. A deck that has the name
/// of no shipped deck is unranked. `shipped` is the shipped deck; null: there is none. Pure.
Judged judge_division(const UsedDeck& deck, const UsedDeck* shipped);

/// The content of the file that a deck trains on, whose path starts at the current folder if it is
/// relative; empty if `source` is not "file". Reads the file.
std::optional<FileIdentity> data_of(const nlohmann::json& deck, const std::string& path);

/// Reads the shipped deck that has the deck's `name`, and its data; empty if there is none. Throws
/// DeckError if that file is damaged.
std::optional<UsedDeck> shipped_deck_of(const nlohmann::json& deck);

}  // namespace shardmark
