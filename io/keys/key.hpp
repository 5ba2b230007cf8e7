// SPDX-License-Identifier: Apache-2.0
// One record per key of a config, whoever it comes from. A table of records controls how a section
// is read, which keys are unknown in it, which defaults it has, what `deck check` reports about a
// key, and what help and documents say about it.
#pragma once

#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <core/plan/deck/deck.hpp>
#include <io/json/json_source.hpp>

namespace shardmark {

/// The bounds of a real value: [min, max], or (min, max] with `above_min`.
struct RealRange {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;
};

/// The type of a value. The `_or_null` types also accept null, which leaves the key unset.
enum class KeyType : std::uint8_t {
  boolean,
  boolean_or_null,
  truth,  // anything, true or false by Python's rules
  integer,
  integer_not_boolean,
  number,
  number_not_boolean,
  word,           // one of `words`
  word_any_case,  // one of `words`, in any case
  object,
  object_or_null,
  array,  // of `words`, if there are any
  text,
  names,          // an array of strings, or one of `words`
  not_empty,      // anything that is true by Python's rules
  one_or_zero,    // true, false, or a number that equals one of them
  int_argument,   // what Python's int() converts
  python_object,  // a value that JSON cannot express: whatever is given is wrong
  any
};

/// The effect of a key in ShardMark.
enum class KeyEffect : std::uint8_t {
  used,    // ShardMark does what the key says
  tunes,   // used by schedules that follow DeepSpeed; has no effect under the others
  values,  // used by schedules that follow DeepSpeed, where it changes values; the others refuse it
           // unless it changes nothing
  inert,  // about logging, checkpoints or start-up: changes neither values, memory nor traffic of a
          // step
  dead,   // DeepSpeed itself never reads it
  not_modelled,  // changes values or placement: refused unless it has its default value
  removed  // DeepSpeed refuses the key itself, whatever its value; the sentence has the remedy
};

/// The stages at which a key has an effect.
struct Stages {
  int first = 0, last = 3;
};
inline constexpr Stages all_stages{0, 3}, one_up{1, 3}, one_two{1, 2}, three{3, 3};

/// Where a deck keeps the value of a key; see io/keys/member.hpp.
struct Member {
  KeyType type = KeyType::any;
  Json (*get)(const Deck&) = nullptr;
  void (*set)(Deck&, const Json&) = nullptr;
  std::vector<std::string_view> (*words)() = nullptr;  // of an enum
};

/// One key of a section. A row of a table is a constructor with the calls that say more.
struct Key {
  std::string_view name, sentence, alias = {};  // alias: the other spelling, or nothing
  KeyType type = KeyType::any;
  std::string_view fallback = {};  // JSON; empty: the initial value of the member
  KeyEffect effect = KeyEffect::inert;
  Stages stages = all_stages;
  RealRange range = {};
  // Of a word, an integer or an array: the allowed values, separated by '|'; "" means null, and
  // "gemm?" a word that a deck may name once it is modelled.
  std::string_view words = {};
  bool needed = false;           // a deck must have it
  std::string_view unless = {};  // the key that a deck may have in place of a needed one
  std::string_view absent = {};  // what documents say about the value of an absent key
  std::string_view hf = {};  // what the trainer takes "auto" from: a key of `hf`, or "hf" itself
  Member member = {};

  /// A key that a deck has a member for. The member gives its type and its default.
  constexpr Key(std::string_view name_, const Member& member_, std::string_view sentence_)
      : name(name_),
        sentence(sentence_),
        type(member_.type),
        effect(KeyEffect::used),
        member(member_) {}
  /// A key that other code reads, or nobody.
  constexpr Key(std::string_view name_, KeyType type_, std::string_view fallback_,
                std::string_view sentence_ = {})
      : name(name_), sentence(sentence_), type(type_), fallback(fallback_) {}

 private:
  // Before its callers, since clang otherwise finds it undefined in constant expressions.
  template<class T>
  constexpr Key with(T Key::*field, T value) const {
    Key changed = *this;
    changed.*field = value;
    return changed;
  }
  constexpr Key acts(KeyEffect how, Stages at) const {
    return with(&Key::effect, how).with(&Key::stages, at);
  }

 public:
  constexpr Key also(std::string_view other) const { return with(&Key::alias, other); }
  constexpr Key or_else(std::string_view json) const { return with(&Key::fallback, json); }
  constexpr Key one_of(std::string_view list) const { return with(&Key::words, list); }
  constexpr Key of_type(KeyType other) const { return with(&Key::type, other); }
  constexpr Key within(RealRange bounds) const { return with(&Key::range, bounds); }
  constexpr Key at_least(double min) const { return within({min}); }
  /// A key that a deck must have, unless it has the `other` one.
  constexpr Key required(std::string_view other = {}) const {
    return with(&Key::needed, true).with(&Key::unless, other);
  }
  /// What an absent key means, where that is not one value that the key takes.
  constexpr Key if_absent(std::string_view text) const { return with(&Key::absent, text); }
  constexpr Key filled_by(std::string_view key) const { return with(&Key::hf, key); }
  constexpr Key used(Stages at = all_stages) const { return acts(KeyEffect::used, at); }
  constexpr Key tunes(Stages at = all_stages) const { return acts(KeyEffect::tunes, at); }
  constexpr Key changes(Stages at = all_stages) const { return acts(KeyEffect::values, at); }
  constexpr Key inert(Stages at = all_stages) const { return acts(KeyEffect::inert, at); }
  constexpr Key refused(Stages at = all_stages) const { return acts(KeyEffect::not_modelled, at); }
  constexpr Key dead() const { return acts(KeyEffect::dead, all_stages); }

  /// The default.
  Json default_value() const;
};

/// A key that DeepSpeed has removed: it refuses a config that names it, even null or empty.
constexpr Key removed(std::string_view name, std::string_view remedy = {}) {
  Key key(name, KeyType::any, "null", remedy);
  key.effect = KeyEffect::removed;
  return key;
}

/// How DeepSpeed reads one object. A config model takes "auto" as an absent key, converts "1000",
/// "true", 2.0 and 5e8, and refuses unknown keys; a dictionary does none of this. The arguments of
/// a call are not converted, and an unknown one is refused.
enum class Reading : std::uint8_t { model, dictionary, arguments };

/// Who judges the keys of a section: the reader of its values; the table, key by key, because
/// ShardMark models nothing of the section; or nobody, because the finding about the section
/// covers its keys.
enum class Judging : std::uint8_t { by_reader, by_key, as_a_whole };

/// One object of a config and its keys.
struct Section {
  std::string_view path;  // from the top of the config; a section comes after its parents
  std::span<const Key> keys;
  Reading reading = Reading::model;
  Judging judging = Judging::by_reader;
  // The key without which the others have no effect, and why they have none then; or nothing.
  std::string_view gate = {}, gate_is_off = {};
  std::string_view owner = {};  // whose parameters these are, if the path has several tables
};

/// A key of a table, by the member that keeps its value or, if it has none, by its name.
class KeyRef {
 public:
  KeyRef(const Member& member) : member_(&member) {}
  KeyRef(std::string_view name) : name_(name) {}
  KeyRef(const char* name) : name_(name) {}
  KeyRef(const std::string& name) : name_(name) {}
  bool is(const Key& key) const {
    return member_ != nullptr ? key.member.get == member_->get : key.name == name_;
  }

 private:
  const Member* member_ = nullptr;
  std::string_view name_;
};

/// Returns the row of a name or of its other spelling, or nullptr.
const Key* find_key(std::span<const Key> keys, std::string_view spelling);

/// Returns all spellings that are not removed, for suggestions.
std::vector<std::string> spellings(std::span<const Key> keys);

/// Returns the paths of all sections and keys of these tables whose last part is `name`, each once,
/// below `root`.
std::vector<std::string> paths_named(std::string_view name, std::span<const Section> sections,
                                     std::string_view root);

}  // namespace shardmark
