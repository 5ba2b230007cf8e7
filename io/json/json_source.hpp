// SPDX-License-Identifier: Apache-2.0
// JSON text to values, under two rules. A deck is strict: comments are allowed, duplicate keys and
// trailing commas are not, the top level is an object. A DeepSpeed config that a deck names by path
// is read as leniently as DeepSpeed itself reads it: as Hjson (hjson.hpp).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace shardmark {

/// A value of any JSON type.
using Json = nlohmann::json;

/// The rules for a text: strict for decks, lenient for DeepSpeed configs.
enum class JsonRules : std::uint8_t { deck, deepspeed };

/// The text is not JSON; `what()` has line and column.
struct JsonSyntaxError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Any JSON value. `name` stands in messages for where the text came from.
/// Throws JsonSyntaxError; DeckError for a key that occurs twice or for nesting beyond 64 levels.
Json parse_json(std::string_view text, const std::string& name, JsonRules rules);

/// The object in a file. Throws DeckError: missing, unreadable, not a file, empty, not JSON, no
/// object.
Json read_json_file(const std::string& path, JsonRules rules);

/// `value` as one line for messages, cut to a readable length; never throws.
std::string brief(const Json& value);

}  // namespace shardmark
