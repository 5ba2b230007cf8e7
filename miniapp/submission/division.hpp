// SPDX-License-Identifier: Apache-2.0
// The division of a run under the run rules (docs/run-rules.md): what its deck changes, compared
// with the shipped deck of the same name.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace shardmark {

/// From the strictest to the freest. `unranked` runs cannot be compared with others.
enum class Division : std::uint8_t { as_is, tuned, unranked };

/// "as-is", "tuned", "unranked".
std::string_view to_string(Division division);

/// A division, and what moved the run down to it.
struct Judged {
  Division division = Division::as_is;
  std::vector<std::string> reasons;  // "deepspeed.zero_optimization.stage: 2 instead of 3"
};

/// Judges a deck by its difference from the shipped deck of the same name. A deck that has the name
/// of no shipped deck is unranked. `shipped` is the shipped deck; null: there is none. Pure.
Judged judge_division(const nlohmann::json& deck, const nlohmann::json* shipped);

/// The keys, other than those that any run may change, whose values differ from the shipped deck's,
/// with the values of `deck`; null: `deck` lacks the key. Pure.
std::map<std::string, nlohmann::json> changed_work(const nlohmann::json& deck,
                                                   const nlohmann::json& shipped);

/// Reads the shipped deck that has the deck's `name`; empty if there is none. Throws DeckError if
/// that file is damaged.
std::optional<nlohmann::json> shipped_deck_of(const nlohmann::json& deck);

/// The same as judge_division, with the shipped deck found by the deck's `name`. Throws DeckError
/// if that file is damaged.
Judged division_of(const nlohmann::json& deck);

}  // namespace shardmark
