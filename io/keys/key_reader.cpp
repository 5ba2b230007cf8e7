// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <stdexcept>

#include <fmt/core.h>

#include <core/text.hpp>
#include <io/keys/key_reader.hpp>
#include <io/keys/nearest.hpp>

namespace shardmark {
namespace {

constexpr double two_to_63 = 9223372036854775808.0;

double real_of(const Origin& origin, const std::string& key, const Json& value, RealRange range) {
  const std::string must = "must be " + describe(range);
  if (!value.is_number()) origin.refuse(key, value, must);
  const double v = value.get<double>();
  const bool in_range = (range.above_min ? v > range.min : v >= range.min) && v <= range.max;
  if (!std::isfinite(v) || !in_range) origin.refuse(key, value, must);
  return v;
}

// The words that a key accepts: its own, or all of an enum.
std::vector<Word> words_of(const Key& key) {
  std::vector<Word> words;
  if (key.words.empty())
    for (const std::string_view name : key.member.words()) words.push_back({name});
  else
    for (const std::string_view name : split(key.words, '|'))
      words.push_back({name.substr(0, name.find('?')), name.ends_with('?')});
  return words;
}

// Returns the bounds of an integer's record. A record holds them as doubles, and an upper bound
// near 2^63 would overflow an int64, so it counts as no bound.
IntRange integers_of(const Key& key) {
  constexpr double most = 9.2e18;
  const auto min = static_cast<std::int64_t>(key.range.min);
  if (key.range.max >= most) return {min};
  return {min, static_cast<std::int64_t>(key.range.max)};
}

// What to give for a key that a deck must have.
std::string what_to_give(const Key& key) {
  if (key.type == KeyType::integer) return "give " + describe(integers_of(key));
  if (key.type != KeyType::word) return "give a string";
  std::vector<std::string> names;
  for (const Word& word : words_of(key))
    if (!word.later) names.push_back(fmt::format("\"{}\"", word.text));
  const std::string last = names.back();
  names.pop_back();
  return fmt::format("give {} or {}", join(names, ", "), last);
}

}  // namespace

std::string describe(IntRange range) {
  if (range.max == std::numeric_limits<std::int64_t>::max())
    return fmt::format("an integer, at least {}", range.min);
  return fmt::format("an integer from {} to {}", range.min, range.max);
}

std::string describe(RealRange range) {
  if (std::isinf(range.min)) return "a number";
  const char* bound = range.above_min ? "above" : "at least";
  if (std::isinf(range.max)) return fmt::format("a number, {} {}", bound, range.min);
  return fmt::format("a number, {} {} and at most {}", bound, range.min, range.max);
}

std::optional<std::int64_t> as_integer(const Json& value) {
  constexpr auto max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > max) return std::nullopt;
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (!value.is_number_float()) return std::nullopt;
  const double v = value.get<double>();
  if (!(std::abs(v) < two_to_63) || v != std::trunc(v)) return std::nullopt;
  return static_cast<std::int64_t>(v);
}

void refuse_unknown(const Origin& origin, std::string_view parent, std::string_view name,
                    const Json& value, const std::vector<std::string>& known) {
  const std::string meant = did_you_mean(name, known, "\"");
  if (!meant.empty()) origin.refuse(join_key(parent, name), value, "unknown key: " + meant);
  constexpr std::size_t shown = 32;  // more names help nobody
  std::string all = join(std::span(known).first(std::min(shown, known.size())), ", ");
  if (known.size() > shown) all += fmt::format(" and {} more", known.size() - shown);
  origin.refuse(join_key(parent, name), value,
                fmt::format("unknown key: remove it; known here: {}", all));
}

KeyReader::KeyReader(Origin& origin, const Json& object, std::string key)
    : origin_(origin), object_(object), key_(std::move(key)) {
  if (!object.is_object())
    origin.refuse(key_, object, "must be an object: enclose its keys in braces");
}

const Json* KeyReader::any(std::string_view name) {
  const std::string wanted(name);
  const auto has_record = [&](std::span<const Key> keys) {
    return find_key(keys, name) != nullptr;
  };
  if (!tables_.empty() && std::none_of(tables_.begin(), tables_.end(), has_record))
    throw std::logic_error("no record in io/deck/ of the key " + key(name));
  if (std::find(known_.begin(), known_.end(), wanted) == known_.end()) known_.push_back(wanted);
  const auto it = object_.find(wanted);
  return it == object_.end() ? nullptr : &*it;
}

void KeyReader::read(std::span<const Key> keys, Deck& deck) {
  tables_.push_back(keys);
  for (const Key& key : keys) {
    const Json* value = any(key.name);
    const bool other = !key.unless.empty() && any(key.unless) != nullptr;
    if (value == nullptr && key.needed && !other) missing(key.name, what_to_give(key));
    if (key.member.set == nullptr) continue;
    if (value == nullptr) {
      if (!key.default_value().is_null()) defaulted(key.name, key.member.get(deck));
      continue;
    }
    key.member.set(deck, checked(key));
  }
}

Json KeyReader::checked(const Key& key) {
  std::int64_t whole = 0;
  double number = 0;
  bool flag = false;
  std::string words;
  switch (key.type) {
    case KeyType::boolean: return boolean(key.name, flag), flag;
    case KeyType::integer: return integer(key.name, whole, integers_of(key)), whole;
    case KeyType::number: return real(key.name, number, key.range), number;
    case KeyType::word: {
      const std::vector<Word> choices = words_of(key);
      return std::string(choices[word(key.name, choices, 0)].text);
    }
    default:
      text(key.name, words);
      if (key.needed && words.empty()) refuse(key.name, words, "must not be empty");
      return words;
  }
}

void KeyReader::defaulted(std::string_view name, const Json& value) {
  origin_.note(FindingKind::defaulted, key(name), brief(value));
}

void KeyReader::integer(std::string_view name, std::int64_t& field, IntRange range) {
  const Json* value = any(name);
  if (!value) return defaulted(name, field);
  const auto v = as_integer(*value);
  if (!v || *v < range.min || *v > range.max) refuse(name, *value, "must be " + describe(range));
  field = *v;
}

void KeyReader::need_integer(std::string_view name, std::int64_t& field, IntRange range) {
  if (!object_.contains(std::string(name))) missing(name, "give " + describe(range));
  integer(name, field, range);
}

void KeyReader::real(std::string_view name, double& field, RealRange range) {
  const Json* value = any(name);
  if (!value) return defaulted(name, field);
  field = real_of(origin_, key(name), *value, range);
}

void KeyReader::real(std::string_view name, std::optional<double>& field, RealRange range) {
  if (const Json* value = any(name)) field = real_of(origin_, key(name), *value, range);
}

void KeyReader::boolean(std::string_view name, bool& field) {
  const Json* value = any(name);
  if (!value) return defaulted(name, field);
  if (!value->is_boolean())
    refuse(name, *value,
           *value == "True" || *value == "False"
               ? "this is Python: write true or false, without quotes"
               : "must be true or false, without quotes");
  field = value->get<bool>();
}

void KeyReader::text(std::string_view name, std::string& field) {
  const Json* value = any(name);
  if (!value) return defaulted(name, field);
  if (!value->is_string()) refuse(name, *value, "must be a string");
  field = value->get<std::string>();
}

void KeyReader::need_text(std::string_view name, std::string& field) {
  if (!object_.contains(std::string(name))) missing(name, "give a string");
  text(name, field);
  if (field.empty()) refuse(name, field, "must not be empty");
}

std::size_t KeyReader::word(std::string_view name, const std::vector<Word>& words,
                            std::size_t fallback) {
  const Json* value = any(name);
  if (!value) {
    defaulted(name, std::string(words[fallback].text));
    return fallback;
  }
  std::string list;
  std::vector<std::string> known;
  for (const Word& w : words) {
    known.emplace_back(w.text);
    if (!w.later) list += fmt::format("{}\"{}\"", list.empty() ? "" : ", ", w.text);
  }
  if (!value->is_string()) refuse(name, *value, "must be one of " + list);
  const auto given = value->get<std::string>();
  const auto it = std::find(known.begin(), known.end(), given);
  if (it == known.end()) {
    const std::string meant = did_you_mean(given, known, "\"");
    refuse(name, *value, "must be one of " + list + (meant.empty() ? "" : ": " + meant));
  }
  const auto index = static_cast<std::size_t>(it - known.begin());
  if (words[index].later) not_modelled(name, *value, "use one of " + list);
  return index;
}

void KeyReader::finish(std::vector<std::string> (*elsewhere)(std::string_view name)) const {
  for (const auto& item : object_.items()) {
    if (std::find(known_.begin(), known_.end(), item.key()) != known_.end()) continue;
    const std::string meant =
        elsewhere == nullptr ? "" : did_you_mean(item.key(), elsewhere(item.key()), "\"");
    if (!meant.empty())
      origin_.refuse(join_key(key_, item.key()), item.value(), "unknown key: " + meant);
    refuse_unknown(origin_, key_, item.key(), item.value(), known_);
  }
}

}  // namespace shardmark
