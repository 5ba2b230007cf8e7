// SPDX-License-Identifier: Apache-2.0
// From JSON text to values, under two sets of rules. A deck is strict: comments are allowed,
// duplicate keys and trailing commas are not, and the top level is an object. A DeepSpeed config
// that a deck names by path is read as leniently as DeepSpeed itself reads it: as Hjson
// (hjson.hpp).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace shardmark {

/// A value of any JSON type.
using Json = nlohmann::json;

/// The rules for a text: strict for decks, lenient for DeepSpeed configs, and YAML (yaml.hpp).
enum class JsonRules : std::uint8_t { deck, deepspeed, yaml };

/// Thrown if the text is not JSON. `what()` has line and column.
struct JsonSyntaxError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Returns any JSON value. `name` says in messages where the text comes from. Throws
/// JsonSyntaxError, and DeckError for a key that occurs twice, for nesting beyond 64 levels or for
/// more than 8388608 values.
Json parse_json(std::string_view text, const std::string& name, JsonRules rules);

/// Returns the object in a file. Throws DeckError if the file is missing, unreadable, not a regular
/// file, larger than 64 MiB, empty, or does not contain a JSON object.
Json read_json_file(const std::string& path, JsonRules rules);

/// Returns "line 3, column 14: what" for a position in a text.
std::string at_place(std::string_view text, std::size_t position, std::string_view what);

/// Throws the DeckError of a key whose second value is in this line of a text.
[[noreturn]] void refuse_second(const std::string& name, const std::string& key, int line);

/// Returns `value` as one line for messages, shortened to a readable length. Never throws.
std::string brief(const Json& value);
/// Returns a key, or a path of keys, as part of a line, shortened to a readable length.
std::string brief_key(std::string_view key);

}  // namespace shardmark
