// SPDX-License-Identifier: Apache-2.0
// One object of a DeepSpeed config, read by its table with DeepSpeed's type conversions.
#pragma once

#include <functional>
#include <map>

#include <core/plan/deck/choices.hpp>
#include <io/deepspeed/schema/key_table.hpp>
#include <io/keys/key_reader.hpp>

namespace shardmark {

/// The values of one section, with DeepSpeed's defaults for keys that are not given.
class DsValues {
 public:
  /// A section that the config does not contain: all values are defaults.
  DsValues(std::string key, const Section& section) : key_(std::move(key)), section_(section) {}

  /// Throws DeckError if `object` is not an object, a value has the wrong type, a key and its alias
  /// are both given, a key was removed, or, if the section forbids them, a key is unknown.
  /// Otherwise unknown keys become findings.
  DsValues(Origin& origin, std::string key, const Json& object, const Section& section);

  // A key that the table does not have is a defect: these functions throw std::logic_error.
  /// Returns the given value, converted, or the default of the table.
  Json at(const KeyRef& key) const;
  bool flag(const KeyRef& key) const;  // null counts as false
  double number(const KeyRef& key) const;
  /// The same, but returns the default if the key is muted.
  Json effective(const KeyRef& key) const;
  /// Sets every member of `deck` that a key of this section has, to its effective value.
  void fill(Deck& deck) const;
  bool given(const KeyRef& key) const { return values_.contains(row(key).name); }
  const Section& section() const { return section_; }
  /// Returns the path of a key as the user spelled it.
  std::string key(const KeyRef& key) const;

  /// Records that keys have no effect in this config, whatever their values. `why` is the text of
  /// the finding.
  void mute(const KeyRef& key, const std::string& why) { muted_.emplace(row(key).name, why); }
  void mute(std::initializer_list<KeyRef> keys, const std::string& why) {
    for (const KeyRef& key : keys) mute(key, why);
  }
  /// Does this for the keys behind the gate of the section, if it is false. A key that changes
  /// values or is not modelled is still judged by its value.
  void mute_behind_gate();

  /// Throws DeckError for the first given value that is not modelled at this stage. Records
  /// findings for keys that have no effect at this stage, under `schedule` or because they are
  /// muted, and for the defaults of used keys.
  void judge(Origin& origin, int stage, Schedule schedule) const;

 private:
  struct Value {
    std::string spelling;
    Json value;
  };
  const Key& row(const KeyRef& key) const;
  // Returns why a key has no effect; empty if it has one.
  std::string without_effect(const Key& row, int stage, Schedule schedule) const;

  std::string key_;
  Section section_;
  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, std::string, std::less<>> muted_;
};

/// Returns `value` as DeepSpeed takes it for a key of this type; empty if DeepSpeed would not
/// accept it. Strings, whole floats and 0/1 are converted only if the section `coerces`; Python
/// computes with a boolean as with 0 or 1 in any section.
std::optional<Json> coerce(const Key& key, const Json& value, bool coerces);

/// Throws DeckError for a key that DeepSpeed has removed. `remedy` says what to use in its place,
/// or is empty.
[[noreturn]] void refuse_removed(const Origin& origin, std::string_view key, const Json& value,
                                 std::string_view remedy);

/// Returns what a key accepts, for messages: "must be true or false".
std::string describe(const Key& key);

}  // namespace shardmark
