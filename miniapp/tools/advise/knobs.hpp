// SPDX-License-Identifier: Apache-2.0
// The keys that `advise` varies, with the names that its text gives them. What a candidate changes
// against the deck, and which keys have no effect, is found by comparing their values.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <core/plan/deck/deck.hpp>
#include <miniapp/tools/advise/candidates.hpp>

namespace shardmark {

/// A key of a deck that candidates vary.
struct Knob {
  std::string_view key;
  std::string_view name;   // in sentences
  std::string_view brief;  // in the table; empty: the table has a column for it
  // In sentences and in JSON; nullptr: what the record of the key finds in the deck.
  std::string (*value)(const Deck&, const Batch&);
};

/// All knobs, the most important one first.
std::span<const Knob> knobs();

/// The knob of a key of `knobs()`.
const Knob& knob_named(std::string_view key);

/// Whether the key is one of `knobs()`.
bool is_knob(std::string_view key);

/// Whether `changes` set the key.
bool is_set(const DeckChanges& changes, std::string_view key);

/// The value of each knob in a deck, in the order of `knobs()`.
std::vector<std::string> knob_values(const Deck& deck, const Batch& batch);

/// One value that a candidate changes.
struct KnobChange {
  std::string_view key, name;
  std::string from, to;
};
/// What `changes` make of the values `from`, if `to` are the values after it; only what differs.
std::vector<KnobChange> knob_changes(const DeckChanges& changes,
                                     const std::vector<std::string>& from,
                                     const std::vector<std::string>& to);

}  // namespace shardmark
