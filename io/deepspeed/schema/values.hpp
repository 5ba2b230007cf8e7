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

  /// Returns the given value, converted, or the default of the table. `name` is the field, not the
  /// alias.
  Json at(std::string_view name) const;
  bool flag(std::string_view name) const;  // null counts as false
  double number(std::string_view name) const;
  /// The same, but returns the default if the key is muted.
  Json effective(std::string_view name) const;
  /// Sets every member of `deck` that a key of this section has, to its effective value.
  void fill(Deck& deck) const;
  bool given(std::string_view name) const { return values_.contains(name); }
  const Section& section() const { return section_; }
  /// Returns the path of `name` as the user spelled it.
  std::string key(std::string_view name) const;

  /// Records that `name` has no effect in this config, whatever its value. `why` is the text of the
  /// finding.
  void mute(std::string_view name, std::string why) { muted_.emplace(name, std::move(why)); }

  /// Throws DeckError for the first given value that is not modelled at this stage. Records
  /// findings for keys that have no effect at this stage, under `schedule` or because they are
  /// muted, and for the defaults of used keys.
  void judge(Origin& origin, int stage, Schedule schedule) const;

 private:
  struct Value {
    std::string spelling;
    Json value;
  };
  const Key& row(std::string_view name) const;
  // Returns why a key has no effect; empty if it has one.
  std::string without_effect(const Key& row, int stage, Schedule schedule) const;

  std::string key_;
  Section section_;
  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, std::string, std::less<>> muted_;
};

/// Returns `value` as DeepSpeed takes it for a key of this type; empty if DeepSpeed would not
/// accept it. Strings, whole floats and 0/1 are converted only if the section `coerces`.
std::optional<Json> coerce(const Key& key, const Json& value, bool coerces);

/// Throws DeckError for a key that DeepSpeed has removed. `remedy` says what to use in its place,
/// or is empty.
[[noreturn]] void refuse_removed(const Origin& origin, std::string_view key, const Json& value,
                                 std::string_view remedy);

/// Returns what a key accepts, for messages: "must be true or false".
std::string describe(const Key& key);

}  // namespace shardmark
