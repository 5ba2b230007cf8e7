// SPDX-License-Identifier: Apache-2.0
// The keys that `advise` varies, with the names that its text gives them. What a candidate changes
// against the deck, and which keys have no effect, is found by comparing their values.
// Who is to carry out the advice: `advise --for`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <core/plan/deck/choices.hpp>
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
const std::vector<Knob>& knobs();

/// The knob that sets a key, or nullptr if no knob does.
const Knob* knob_named(std::string_view key);

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

enum class Framework : std::uint8_t { deepspeed, torch, shardmark };
template<>
inline constexpr std::size_t enum_size<Framework> = 3;

/// What distinguishes the frameworks for code that is common to them.
struct FrameworkTraits {
  std::string_view name;   // of `--for` and of the JSON key "for"
  std::string_view title;  // in sentences
};
inline constexpr auto framework_traits =
    enum_table<Framework>(FrameworkTraits{.name = "deepspeed", .title = "DeepSpeed"},
                          FrameworkTraits{.name = "torch", .title = "PyTorch"},
                          FrameworkTraits{.name = "shardmark", .title = "ShardMark"});
/// The row of the table above.
constexpr const FrameworkTraits& traits(Framework f) {
  return framework_traits[f];
}

/// The schedules that the framework carries out. ShardMark carries out all of them.
std::vector<Schedule> schedules_of(Framework framework);

/// The framework of that name; if the name is empty, the one for which the deck is written: PyTorch
/// if `run.schedule` is torch or the deck has a section `torch`, else DeepSpeed if the section
/// `deepspeed` is not empty, else ShardMark. Throws DeckError for a deck that is not JSON.
Framework framework_of(std::string_view name, const std::string& deck,
                       const std::vector<std::string>& sets);

/// The changes with which the deck as it is runs under the framework: none for ShardMark.
DeckChanges changes_for(Framework framework);

}  // namespace shardmark
