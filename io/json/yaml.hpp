// SPDX-License-Identifier: Apache-2.0
// YAML, which Accelerate writes its config in. The library yaml-cpp parses it; a build without that
// library refuses YAML files. This header also recognizes Python and YAML where JSON is expected,
// so that a message can say what was written and what to write.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <io/json/json_source.hpp>

namespace shardmark {

/// Returns the value in a YAML text, with words like `no` and `1e-5` read as PyYAML reads them.
/// `name` says in messages where the text comes from. Throws JsonSyntaxError for text that is not
/// YAML, and DeckError for a key that occurs twice, for nesting beyond 64 levels, for too many
/// values, and in a build without yaml-cpp.
Json parse_yaml(const std::string& text, const std::string& name);

/// Returns where a text has its first sign of Python or YAML and what to write instead, as in "line
/// 3, column 14: this is Python: write true in place of True"; returns nothing if there is no sign.
/// JSON and Hjson may contain such signs too, so call this only for a text that could not be read.
std::optional<std::string> foreign_notation(std::string_view text);

/// Returns the same for a text without braces whose keys nest by indentation. Hjson would read it
/// as strings, and DeepSpeed then refuses it.
std::optional<std::string> nested_yaml(std::string_view text);

}  // namespace shardmark
