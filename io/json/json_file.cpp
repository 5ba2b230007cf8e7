// SPDX-License-Identifier: Apache-2.0
// Reads files that must contain JSON objects, and reports those that do not.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <fmt/core.h>

#include <core/error.hpp>
#include <io/json/foreign_notation.hpp>
#include <io/json/json_source.hpp>

namespace shardmark {
namespace {

constexpr std::uintmax_t max_json_bytes = std::uintmax_t{64} << 20;

std::string read_text(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found)
    throw DeckError(fmt::format("{}: no such file: check the path", path));
  if (std::filesystem::is_directory(status))
    throw DeckError(fmt::format("{}: is a folder: name the JSON file in it", path));
  if (error)
    throw DeckError(
        fmt::format("{}: {}: check the path and its permissions", path, error.message()));
  if (!std::filesystem::is_regular_file(status))
    throw DeckError(
        fmt::format("{}: is not a regular file: every rank must be able to read it", path));

  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in)
    throw DeckError(
        fmt::format("{}: cannot be read: {}: check the permissions", path, std::strerror(errno)));
  if (std::filesystem::file_size(path, error) > max_json_bytes && !error)
    throw DeckError(
        fmt::format("{}: larger than {} MiB: this is not a deck", path, max_json_bytes >> 20));
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad()) throw DeckError(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  return std::move(text).str();
}

const char* rule_of(JsonRules rules) {
  switch (rules) {
    case JsonRules::deck: return "comments are allowed, trailing commas are not";
    case JsonRules::deepspeed: return "it is read as Hjson, as DeepSpeed reads it";
    case JsonRules::yaml: return "it is read as YAML, because of its name";
  }
  return "";
}

}  // namespace

Json read_json_file(const std::string& path, JsonRules rules) {
  const std::string text = read_text(path);
  if (text.find_first_not_of(" \t\r\n") == std::string::npos)
    throw DeckError(fmt::format("{}: is empty: write a JSON object", path));
  Json value;
  if (rules == JsonRules::deepspeed)
    if (const auto yaml = nested_yaml(text)) throw DeckError(fmt::format("{}: {}", path, *yaml));
  try {
    value = parse_json(text, path, rules);
  } catch (const JsonSyntaxError& error) {
    if (rules != JsonRules::yaml)
      if (const auto foreign = foreign_notation(text))
        throw DeckError(fmt::format("{}: {} ({})", path, *foreign, rule_of(rules)));
    throw DeckError(fmt::format("{}: {}: correct it ({})", path, error.what(), rule_of(rules)));
  }
  if (!value.is_object())
    throw DeckError(fmt::format("{}: top level = {}: must be an object: enclose the keys in braces",
                                path, brief(value)));
  return value;
}

}  // namespace shardmark
