// SPDX-License-Identifier: Apache-2.0
// One object of a DeepSpeed config, read by its table with DeepSpeed's coercions.
#pragma once

#include <functional>
#include <map>

#include <io/deepspeed/schema/key_table.hpp>

namespace shardmark {

/// The values of one section, with DeepSpeed's defaults for keys that are not given.
class DsValues {
 public:
  /// Nothing given: all defaults.
  DsValues(std::string key, const DsSection& section) : key_(std::move(key)), section_(section) {}

  /// Throws DeckError: not an object, an ill-typed value, a key and its alias together, a removed
  /// key, and, where the section forbids them, unknown keys (elsewhere they become findings).
  DsValues(Origin& origin, std::string key, const Json& object, const DsSection& section);

  /// The value given, coerced, or the table's default. `name` is the field, not the alias.
  Json at(std::string_view name) const;
  bool flag(std::string_view name) const;  // null counts as false
  double number(std::string_view name) const;
  /// The same, but the default of a muted key.
  Json effective(std::string_view name) const;
  bool given(std::string_view name) const { return values_.contains(name); }
  const DsSection& section() const { return section_; }
  /// Key path of `name` as the user spelled it.
  std::string key(std::string_view name) const;

  /// `name` has no effect in this config, whatever its value; `why` for the finding.
  void mute(std::string_view name, std::string why) { muted_.emplace(name, std::move(why)); }

  /// Throws DeckError for the first given value that is not modelled yet at this stage; notes those
  /// that have no effect at this stage, under `schedule` or because they are muted, and the
  /// defaults of used keys.
  void judge(Origin& origin, int stage, std::string_view schedule) const;

 private:
  struct Value {
    std::string spelling;
    Json value;
  };
  const DsKey& row(std::string_view name) const;
  // Why a key has no effect; empty if it has.
  std::string without_effect(const DsKey& row, int stage, std::string_view schedule) const;

  std::string key_;
  DsSection section_;
  std::map<std::string, Value, std::less<>> values_;
  std::map<std::string, std::string, std::less<>> muted_;
};

/// `value` as DeepSpeed takes it for a key of this type; empty if it would not. Strings, whole
/// floats and 0/1 are converted only where the section `coerces`.
std::optional<Json> coerce(const DsKey& key, const Json& value, bool coerces);

/// What a key accepts, for messages: "must be true or false".
std::string describe(const DsKey& key);

}  // namespace shardmark
