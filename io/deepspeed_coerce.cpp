// SPDX-License-Identifier: Apache-2.0
// DeepSpeed's config models convert what they can: "1000", 5e8 and 2.0 are integers, "true" and 1
// are booleans. Its other sections take JSON's types as they come.
#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>

#include <io/deepspeed_values.hpp>

namespace shardmark {
namespace {

std::vector<std::string> split_words(std::string_view words) {
  std::vector<std::string> result(1);
  for (const char c : words) {
    if (c == '|')
      result.emplace_back();
    else
      result.back() += c;
  }
  return result;
}

std::optional<Json> number_in(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n\r");
  if (first == std::string_view::npos) return std::nullopt;
  text = text.substr(first, text.find_last_not_of(" \t\n\r") - first + 1);
  if (text.front() == '+') text.remove_prefix(1);
  const char* end = text.data() + text.size();
  std::int64_t whole = 0;
  if (const auto r = std::from_chars(text.data(), end, whole); r.ec == std::errc{} && r.ptr == end)
    return Json(whole);
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
  auto text = value.get<std::string>();
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  constexpr std::array yes{"1", "on", "t", "true", "y", "yes"};
  constexpr std::array no{"0", "off", "f", "false", "n", "no"};
  if (std::find(yes.begin(), yes.end(), text) != yes.end()) return Json(true);
  if (std::find(no.begin(), no.end(), text) != no.end()) return Json(false);
  return std::nullopt;
}

// Numbers in their other clothes: booleans and strings.
std::optional<Json> to_number(const Json& value) {
  if (value.is_boolean()) return Json(value.get<bool>() ? 1 : 0);
  if (value.is_string()) return number_in(value.get<std::string>());
  return value;
}

// Python's integers have no end: what is beyond ours is as good as the largest.
std::optional<std::int64_t> saturated_integer(const Json& value) {
  constexpr auto max = std::numeric_limits<std::int64_t>::max();
  if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::uint64_t{max}) return max;
  return as_integer(value);
}

bool in_range(const RealRange& range, double v) {
  return v >= range.min && v <= range.max;
}

std::optional<Json> coerce_integer(const DsKey& key, const Json& value) {
  const auto v = saturated_integer(value);
  if (!v || !in_range(key.range, static_cast<double>(*v))) return std::nullopt;
  const auto words = split_words(key.words);
  if (!key.words.empty() &&
      std::find(words.begin(), words.end(), std::to_string(*v)) == words.end())
    return std::nullopt;
  return Json(*v);
}

bool nullable(const DsKey& key) {
  return key.type == DsType::boolean_or_null || key.type == DsType::object_or_null ||
         key.fallback == "null";
}

std::string quoted_list(const DsKey& key) {
  const auto words = split_words(key.words);
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0) list += i + 1 == words.size() ? " or " : ", ";
    if (words[i].empty())
      list += "null";
    else
      list += key.type == DsType::word ? fmt::format("\"{}\"", words[i]) : words[i];
  }
  return list;
}

}  // namespace

std::optional<Json> coerce(const DsKey& key, const Json& value, bool coerces) {
  if (value.is_null()) return nullable(key) ? std::optional<Json>(value) : std::nullopt;
  switch (key.type) {
    case DsType::boolean:
    case DsType::boolean_or_null:
      if (value.is_boolean()) return value;
      return coerces ? to_boolean(value) : std::nullopt;
    case DsType::integer: {
      const auto number = coerces ? to_number(value) : std::optional<Json>(value);
      return number ? coerce_integer(key, *number) : std::nullopt;
    }
    case DsType::number: {
      const auto number = coerces ? to_number(value) : std::optional<Json>(value);
      if (!number || !number->is_number() || !in_range(key.range, number->get<double>()))
        return std::nullopt;
      return number;
    }
    case DsType::word: {
      const auto words = split_words(key.words);
      const bool known = value.is_string() && std::find(words.begin(), words.end(),
                                                        value.get<std::string>()) != words.end();
      return known ? std::optional<Json>(value) : std::nullopt;
    }
    case DsType::object:
    case DsType::object_or_null:
      return value.is_object() ? std::optional<Json>(value) : std::nullopt;
    case DsType::array: return value.is_array() ? std::optional<Json>(value) : std::nullopt;
    case DsType::text: return value.is_string() ? std::optional<Json>(value) : std::nullopt;
    case DsType::any: return value;
  }
  return std::nullopt;
}

std::string describe(const DsKey& key) {
  if (!key.words.empty()) return "must be " + quoted_list(key);
  switch (key.type) {
    case DsType::boolean: return "must be true or false";
    case DsType::boolean_or_null: return "must be true, false or null";
    case DsType::integer:
      return key.range.min < 0 ? "must be an integer"
                               : fmt::format("must be an integer, at least {}", key.range.min);
    case DsType::number: return "must be " + describe(key.range);
    case DsType::object: return "must be an object";
    case DsType::object_or_null: return "must be an object or null";
    case DsType::array: return "must be an array";
    case DsType::text: return "must be a string";
    case DsType::word:
    case DsType::any: break;
  }
  return "must be something else";
}

}  // namespace shardmark
