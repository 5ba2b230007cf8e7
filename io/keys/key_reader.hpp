// SPDX-License-Identifier: Apache-2.0
// Reads one object of a deck, key by key, into typed fields. The initial value of a field is the
// default of its key. Each call names a key once. With that one name the reader reads the value,
// checks type and bounds, knows the key when `finish` looks for unknown keys, and lists the default
// if the key is absent.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <core/enum_array.hpp>
#include <io/keys/key.hpp>
#include <io/keys/origin.hpp>

namespace shardmark {

/// The bounds are inclusive, except the lower one if `above_min` is set.
struct IntRange {
  std::int64_t min = 0;
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

/// A word that a key accepts. `later` means that the word is known but not modelled yet.
struct Word {
  std::string_view text;
  bool later = false;
};

/// Reads the keys of one object and refuses the deck if one of them is wrong.
class KeyReader {
 public:
  /// `object` must outlive the reader. `key` is the path of the object in the deck, and empty for
  /// the deck itself. Throws DeckError if `object` is not a JSON object.
  KeyReader(Origin& origin, const Json& object, std::string key);

  /// Reads every key that has a member into `deck`, with the type and the bounds of its record. A
  /// key without a member becomes known, and is left to other code. An absent key leaves the member
  /// as it is, which is recorded as a default unless the record's default is null. From then on,
  /// each key that is read by name must have a record in one of the tables that were read. Throws
  /// DeckError, also for an absent key that a deck must have.
  void read(std::span<const Key> keys, Deck& deck);

  // Each function reads a key into `field`. If the key is absent, the field keeps its value, which
  // is recorded as a default. They throw DeckError.
  void integer(std::string_view name, std::int64_t& field, IntRange range);
  void real(std::string_view name, double& field, RealRange range);
  void real(std::string_view name, std::optional<double>& field, RealRange range);
  void boolean(std::string_view name, bool& field);
  void text(std::string_view name, std::string& field);
  /// Reads one of the `values` of an enum, as `to_string` names them.
  template<class E>
  void choice(std::string_view name, E& field, std::initializer_list<E> values) {
    choice(name, field, std::span<const E>(values));
  }
  /// Reads one of all values of an enum.
  template<class E>
  void choice(std::string_view name, E& field) {
    choice(name, field, std::span<const E>(all_values<E>));
  }
  /// Returns the index of the word in `words`. `fallback` is the index of the default.
  std::size_t word(std::string_view name, const std::vector<Word>& words, std::size_t fallback);

  // The same for required keys: throws DeckError "missing", which says what to give, if the key is
  // absent.
  void need_integer(std::string_view name, std::int64_t& field, IntRange range);
  void need_text(std::string_view name, std::string& field);

  /// Returns the value of a key, whatever its type, or nullptr if it is absent. Marks the key as
  /// known.
  const Json* any(std::string_view name);
  /// Calls `read` with a reader of the object at a key, and finishes that reader. Does nothing if
  /// the key is absent.
  template<class F>
  void section(std::string_view name, const F& read) {
    const Json* object = any(name);
    if (object == nullptr) return;
    KeyReader inner(origin_, *object, key(name));
    read(inner);
    inner.finish();
  }

  const Json& object() const { return object_; }
  std::string key(std::string_view name) const { return join_key(key_, name); }
  Origin& origin() { return origin_; }
  // Throw DeckError about the value of a key, as the functions of Origin do.
  [[noreturn]] void refuse(std::string_view name, const Json& value, std::string_view what) const {
    origin_.refuse(key(name), value, what);
  }
  [[noreturn]] void missing(std::string_view name, std::string_view what) const {
    origin_.missing(key(name), what);
  }
  [[noreturn]] void not_modelled(std::string_view name, const Json& value,
                                 std::string_view remedy) const {
    origin_.not_modelled(key(name), value, remedy);
  }

  /// Throws DeckError for the first key that no call named, and suggests the nearest key that a
  /// call named, or else the paths that `elsewhere` gives for it.
  void finish(std::vector<std::string> (*elsewhere)(std::string_view name) = nullptr) const;

 private:
  template<class E>
  void choice(std::string_view name, E& field, std::span<const E> values) {
    std::vector<Word> words;
    std::size_t fallback = 0;
    for (const E value : values) {
      if (value == field) fallback = words.size();
      words.push_back({to_string(value)});
    }
    field = values[word(name, words, fallback)];
  }
  Json checked(const Key& key);
  void defaulted(std::string_view name, const Json& value);

  Origin& origin_;
  const Json& object_;
  std::string key_;
  std::vector<std::string> known_;
  std::vector<std::span<const Key>> tables_;
};

/// Returns "an integer, at least 1" or "an integer from 1 to 8".
std::string describe(IntRange range);
/// Returns "a number, at least 0" or "a number, above 0 and at most 1".
std::string describe(RealRange range);

/// Returns an integer, written as such or as a whole number like 5e8; empty if `value` is not an
/// integer or exceeds 63 bits.
std::optional<std::int64_t> as_integer(const Json& value);

/// Throws DeckError: `name` is unknown in `parent`. Suggests the nearest of `known`.
[[noreturn]] void refuse_unknown(const Origin& origin, std::string_view parent,
                                 std::string_view name, const Json& value,
                                 const std::vector<std::string>& known);

}  // namespace shardmark
