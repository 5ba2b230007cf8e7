// SPDX-License-Identifier: Apache-2.0
// Type conversions. DeepSpeed's config models convert what they can: "1000", 5e8 and 2.0 are
// integers, "true" and 1 are booleans. Its other sections take JSON's types as they are.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include <fmt/core.h>

#include <core/text.hpp>
#include <io/deepspeed/schema/values.hpp>

namespace shardmark {
namespace {

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n\r");
  if (first == std::string_view::npos) return {};
  text = text.substr(first, text.find_last_not_of(" \t\n\r") - first + 1);
  if (text.front() == '+' && text.size() > 1 && text[1] != '-') text.remove_prefix(1);
  return text;
}

// Python allows digits to be grouped, as in 1_000.
std::string without_grouping(std::string_view text) {
  std::string result;
  const auto digit = [&](std::size_t i) {
    return i < text.size() && text[i] >= '0' && text[i] <= '9';
  };
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '_' || i == 0 || !digit(i - 1) || !digit(i + 1)) result += text[i];
  return result;
}

// "12", and "12.00" if `zeros` allows it. DeepSpeed does not accept "5e8" in quotes as an integer.
std::optional<Json> integer_in(std::string_view quoted, bool zeros) {
  std::string text = without_grouping(trimmed(quoted));
  const auto dot = text.find('.');
  if (zeros && dot != std::string::npos && dot > 0 && dot + 1 < text.size() &&
      text.find_first_not_of('0', dot + 1) == std::string::npos)
    text.resize(dot);
  const char* end = text.data() + text.size();
  std::int64_t whole = 0;
  const auto r = std::from_chars(text.data(), end, whole);
  if (text.empty() || r.ptr != end) return std::nullopt;
  if (r.ec == std::errc{}) return Json(whole);
  if (text.front() == '-') return std::nullopt;
  return Json(std::numeric_limits<std::int64_t>::max());
}

std::optional<Json> real_in(std::string_view text) {
  text = trimmed(text);
  const char* end = text.data() + text.size();
  double real = 0;
  if (const auto r = std::from_chars(text.data(), end, real); r.ec == std::errc{} && r.ptr == end)
    return Json(real);
  return std::nullopt;
}

std::optional<Json> to_boolean(const Json& value) {
  if (value.is_number()) {
    const double v = value.get<double>();
    if (v == 0 || v == 1) return Json(v == 1);
  }
  if (!value.is_string()) return std::nullopt;
  const std::string text = lower_case(value.get<std::string>());
  constexpr std::array yes{"1", "on", "t", "true", "y", "yes"};
  constexpr std::array no{"0", "off", "f", "false", "n", "no"};
  if (std::find(yes.begin(), yes.end(), text) != yes.end()) return Json(true);
  if (std::find(no.begin(), no.end(), text) != no.end()) return Json(false);
  return std::nullopt;
}

// Turns booleans and strings into numbers.
std::optional<Json> to_number(const Key& key, const Json& value) {
  const bool strict =
      key.type == KeyType::integer_not_boolean || key.type == KeyType::number_not_boolean;
  if (value.is_boolean())
    return strict ? std::nullopt : std::optional<Json>(value.get<bool>() ? 1 : 0);
  if (!value.is_string()) return std::make_optional(value);
  const auto text = value.get<std::string>();
  const bool integer = key.type == KeyType::integer || key.type == KeyType::integer_not_boolean;
  return integer ? integer_in(text, !strict) : real_in(text);
}

// Python's truth values: null, zero and empty values are false.
bool truth_of(const Json& value) {
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>() != 0;
  if (value.is_string()) return !value.get_ref<const std::string&>().empty();
  return !value.empty();
}

// Integers in Python have no upper bound, so one beyond 63 bits is treated as the largest.
std::optional<std::int64_t> saturated_integer(const Json& value) {
  constexpr auto max = std::numeric_limits<std::int64_t>::max();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{max}) return max;
  return as_integer(value);
}

bool in_range(const RealRange& range, double v) {
  return v >= range.min && v <= range.max;
}

std::optional<Json> coerce_integer(const Key& key, const Json& value) {
  const auto v = saturated_integer(value);
  if (!v || !in_range(key.range, static_cast<double>(*v))) return std::nullopt;
  const auto words = split(key.words, '|');
  if (!key.words.empty() &&
      std::find(words.begin(), words.end(), std::to_string(*v)) == words.end())
    return std::nullopt;
  return Json(*v);
}

std::optional<Json> coerce_word(const Key& key, const Json& value) {
  if (!value.is_string()) return std::nullopt;
  auto text = value.get<std::string>();
  if (key.type == KeyType::word_any_case) text = lower_case(text);
  const auto words = split(key.words, '|');
  const bool is_known = std::find(words.begin(), words.end(), text) != words.end();
  return is_known ? std::optional<Json>(std::move(text)) : std::nullopt;
}

// Whether an array has only words of its key, if the key lists any.
bool all_known(const Key& key, const Json& array) {
  const auto words = split(key.words, '|');
  return key.words.empty() || std::all_of(array.begin(), array.end(), [&](const Json& item) {
           return std::ranges::any_of(words, [&](const auto& word) { return item == word; });
         });
}

bool is_names(const Key& key, const Json& value) {
  if (value.is_string()) return !key.words.empty() && value == key.words;
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const Json& name) { return name.is_string(); });
}

bool nullable(const Key& key) {
  for (const KeyType never : {KeyType::python_object, KeyType::names, KeyType::not_empty,
                              KeyType::one_or_zero, KeyType::int_argument})
    if (key.type == never) return false;
  return key.type == KeyType::boolean_or_null || key.type == KeyType::object_or_null ||
         key.type == KeyType::any || key.default_value().is_null();
}

std::string quoted_list(const Key& key) {
  const auto words = split(key.words, '|');
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) list += i + 1 == words.size() ? " or " : ", ";
    const std::string_view quote = key.type == KeyType::integer ? "" : "\"";
    list += words[i].empty() ? "null" : fmt::format("{}{}{}", quote, words[i], quote);
  }
  return list;
}

}  // namespace

std::optional<Json> coerce(const Key& key, const Json& value, bool coerces) {
  if (key.type == KeyType::truth) return Json(truth_of(value));
  if (value.is_null()) return nullable(key) ? std::optional<Json>(value) : std::nullopt;
  const auto only_if = [&](bool right_type) {
    return right_type ? std::optional<Json>(value) : std::nullopt;
  };
  switch (key.type) {
    case KeyType::boolean:
    case KeyType::boolean_or_null:
      if (value.is_boolean()) return std::make_optional(value);
      if (coerces) return to_boolean(value);
      return value.is_number_integer() ? std::optional<Json>(truth_of(value)) : std::nullopt;
    case KeyType::integer:
    case KeyType::integer_not_boolean: {
      const auto number = coerces ? to_number(key, value) : only_if(value.is_number());
      return number ? coerce_integer(key, *number) : std::nullopt;
    }
    case KeyType::number:
    case KeyType::number_not_boolean: {
      // What is not converted is computed with, and Python computes with true as 1.
      const auto number =
          coerces || value.is_boolean() ? to_number(key, value) : only_if(value.is_number());
      const bool good = number && number->is_number() && std::isfinite(number->get<double>()) &&
                        in_range(key.range, number->get<double>());
      return good ? number : std::nullopt;
    }
    case KeyType::word:
    case KeyType::word_any_case: return coerce_word(key, value);
    case KeyType::object:
      if (!key.words.empty() && value == key.words) return Json::object();
      return only_if(value.is_object());
    case KeyType::object_or_null: return only_if(value.is_object());
    case KeyType::array: return only_if(value.is_array() && all_known(key, value));
    case KeyType::text: return only_if(value.is_string());
    case KeyType::names: return only_if(is_names(key, value));
    case KeyType::not_empty: return only_if(truth_of(value));
    case KeyType::one_or_zero:
      return only_if(value == true || value == false || value == 0 || value == 1);
    case KeyType::int_argument:
      return only_if(value.is_number() || value.is_boolean() ||
                     (value.is_string() && integer_in(value.get<std::string>(), false)));
    case KeyType::python_object: return std::nullopt;
    case KeyType::truth:
    case KeyType::any: return std::make_optional(value);
  }
  return std::nullopt;
}

std::string describe(const Key& key) {
  if (key.type == KeyType::array && !key.words.empty())
    return "must be a list of " + quoted_list(key);
  if (!key.words.empty() && key.type != KeyType::object && key.type != KeyType::names)
    return "must be " + quoted_list(key);
  switch (key.type) {
    case KeyType::boolean: return "must be true or false";
    case KeyType::boolean_or_null: return "must be true, false or null";
    case KeyType::integer:
    case KeyType::integer_not_boolean:
      return key.range.min < 0 ? "must be an integer"
                               : fmt::format("must be an integer, at least {}", key.range.min);
    case KeyType::number:
    case KeyType::number_not_boolean: return "must be " + describe(key.range);
    case KeyType::object: return "must be an object";
    case KeyType::object_or_null: return "must be an object or null";
    case KeyType::array: return "must be an array";
    case KeyType::text: return "must be a string";
    case KeyType::names:
      return "must be a list of names" + (key.words.empty() ? "" : " or " + quoted_list(key));
    case KeyType::not_empty: return "must not be empty";
    case KeyType::one_or_zero: return "must be true or false";
    case KeyType::int_argument: return "must be an integer";
    case KeyType::python_object:
      return "DeepSpeed needs a Python object here, which JSON cannot express: remove the key";
    case KeyType::word:
    case KeyType::word_any_case:
    case KeyType::truth:
    case KeyType::any: break;
  }
  return "must be something else";
}

}  // namespace shardmark
