// SPDX-License-Identifier: Apache-2.0
// Reads one object of a deck, key by key, into typed fields. A field's initial value is the key's
// default; each call names a key once, and that one naming serves to read it, to check its type and
// bounds, to know it when `finish` looks for unknown keys, and to list the default that was taken.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <io/keys/origin.hpp>

namespace shardmark {

/// Inclusive, unless `above_min`.
struct IntRange {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

/// The bounds of a real value: [min, max], or (min, max] with `above_min`.
struct RealRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;
};

/// A word that a key accepts. `later`: known, but not modelled yet.
struct Word {
  std::string_view text;
  bool later = false;
};

/// Reads the keys of one object and refuses the deck if one of them is wrong.
class KeyReader {
 public:
  /// `object` must outlive the reader. `key` is its path in the deck; empty for the deck itself.
  /// Throws DeckError if it is not an object.
  KeyReader(Origin& origin, const Json& object, std::string key);

  // Each takes an absent key's value from `field` and notes that as a default. All throw DeckError.
  void integer(std::string_view name, std::int64_t& field, IntRange range);
  void seed(std::string_view name, std::uint64_t& field);
  void real(std::string_view name, double& field, RealRange range);
  void real(std::string_view name, std::optional<double>& field, RealRange range);
  void boolean(std::string_view name, bool& field);
  void text(std::string_view name, std::string& field);
  /// One of `words`; returns its index. `fallback` is the index of the default.
  std::size_t word(std::string_view name, std::initializer_list<Word> words, std::size_t fallback);

  // The same for keys that must be given: throws DeckError "missing", naming what to give.
  void need_integer(std::string_view name, std::int64_t& field, IntRange range);
  void need_text(std::string_view name, std::string& field);

  /// The value of a key, whatever its type; nullptr if absent. Marks the key as known.
  const Json* any(std::string_view name);
  /// A key of a later version: refused if it is there.
  void later(std::string_view name, std::string_view remedy);

  std::string key(std::string_view name) const { return join_key(key_, name); }
  Origin& origin() { return origin_; }

  /// Throws DeckError for the first key that no call named, with the nearest that one did.
  void finish() const;

 private:
  const Json* find(std::string_view name);
  void defaulted(std::string_view name, const Json& value);

  Origin& origin_;
  const Json& object_;
  std::string key_;
  std::vector<std::string> known_;
};

/// "an integer, at least 1", "an integer from 1 to 8"
std::string describe(IntRange range);
std::string describe(RealRange range);

/// An integer, written as such or as a whole number like 5e8; empty if it is not one or leaves 63
/// bits.
std::optional<std::int64_t> as_integer(const Json& value);

/// Throws DeckError: unknown `name` in `parent`, with the nearest of `known`.
[[noreturn]] void refuse_unknown(const Origin& origin, std::string_view parent,
                                 std::string_view name, const Json& value,
                                 const std::vector<std::string>& known);

}  // namespace shardmark
