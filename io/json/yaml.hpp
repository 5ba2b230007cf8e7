// SPDX-License-Identifier: Apache-2.0
// YAML, which Accelerate writes its config in. The library yaml-cpp parses it; a build without that
// library refuses YAML files.
#pragma once

#include <string>

#include <io/json/json_source.hpp>

namespace shardmark {

/// Returns whether this build has yaml-cpp.
bool reads_yaml();

/// Returns the value in a YAML text, with words like `no` and `1e-5` read as PyYAML reads them.
/// `name` says in messages where the text comes from. Throws JsonSyntaxError for text that is not
/// YAML, and DeckError for a key that occurs twice, for nesting beyond 64 levels, for too many
/// values, and in a build without yaml-cpp.
Json parse_yaml(const std::string& text, const std::string& name);

}  // namespace shardmark
