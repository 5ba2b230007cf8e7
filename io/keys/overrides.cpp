// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/printable.hpp>
#include <io/keys/origin.hpp>
#include <io/keys/overrides.hpp>

namespace shardmark {
namespace {

constexpr std::size_t max_parts = 64;  // of a key path: as deep as a deck may be nested

// Turns `a[0].b` into `a.0.b`.
std::string dotted(std::string_view key) {
  std::string result;
  for (const char c : key) {
    if (c == '[')
      result += '.';
    else if (c != ']')
      result += c;
  }
  return result;
}

std::optional<std::size_t> index_of(const std::string& part) {
  std::size_t index = 0;
  const char* end = part.data() + part.size();
  const auto [stop, error] = std::from_chars(part.data(), end, index);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return index;
}

// How an argument, or a part of one, stands in a message: on one line, and not too long.
std::string shown(const std::string& text) {
  return printable(text, 80);
}

bool is_utf8(const Json& value) {
  try {
    (void)value.dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

}  // namespace

Override parse_override(const std::string& argument) {
  const auto equals = argument.find('=');
  if (equals == std::string::npos || equals == 0)
    throw DeckError(
        fmt::format("--set {}: must be key.path=value, as in --set run.steps=10", shown(argument)));
  Override result{dotted(std::string_view(argument).substr(0, equals)), {}};
  const std::vector<std::string_view> parts = split(result.key, '.');
  if (std::find(parts.begin(), parts.end(), "") != parts.end())
    throw DeckError(fmt::format(
        "--set {}: a part of the key path is empty: write it like run.steps", shown(argument)));
  if (parts.size() > max_parts)
    throw DeckError(
        fmt::format("--set {}: the key path has {} parts, a deck at most {}: shorten it",
                    shown(result.key), parts.size(), max_parts));
  const std::string text = argument.substr(equals + 1);
  try {
    result.value = parse_json(text, "--set " + shown(argument), JsonRules::deck);
  } catch (const JsonSyntaxError&) {
    result.value = text;
  }
  if (!is_utf8(Json{{result.key, result.value}}))
    throw DeckError("--set: an argument is not UTF-8 text: write it in UTF-8");
  return result;
}

void apply_override(Json& deck, const Override& override_) {
  Json* at = &deck;
  std::string above;
  for (const std::string_view piece : split(override_.key, '.')) {
    const std::string part(piece);
    if (at->is_null() && above.empty()) *at = Json::object();
    const auto stop = [&](std::string_view why) {
      throw DeckError(fmt::format("--set {}={}: {} = {}: {}", shown(override_.key),
                                  brief(override_.value), shown(above), brief(*at), why));
    };
    if (at->is_array()) {
      const auto index = index_of(part);
      if (!index || *index >= at->size())
        stop(fmt::format("\"{}\" is not an index of it: use 0 to {}", shown(part),
                         static_cast<std::int64_t>(at->size()) - 1));
      at = &(*at)[*index];
    } else if (at->is_object()) {
      const bool there = at->contains(part);
      at = &(*at)[part];
      // A section that is created here becomes an object only when something is set below it.
      if (!there) *at = Json::object();
    } else {
      stop("is not a section, so nothing can be set below it: set the whole value");
    }
    above = join_key(above, part);
  }
  *at = override_.value;
}

}  // namespace shardmark
