// SPDX-License-Identifier: Apache-2.0
// A parser of Hjson, because DeepSpeed reads its config file as Hjson: JSON for people, with
// comments (`#`, `//`, `/* */`), keys and strings without quotes, optional and trailing commas,
// strings over several lines, and a root object without braces.
#pragma once

#include <string_view>

#include <io/json/json_source.hpp>

namespace shardmark {

/// Passes the content of `text` to `sink`, value by value, as nlohmann's own parser does. `line` is
/// always the line that is being read, counted from 1. Numbers with a fraction or an exponent that
/// are whole and below 1e10 arrive as integers, as they do in DeepSpeed. Throws JsonSyntaxError
/// with line and column, and whatever `sink` throws.
void parse_hjson(std::string_view text, nlohmann::json_sax<Json>& sink, int& line);

}  // namespace shardmark
