// SPDX-License-Identifier: Apache-2.0
// Recognizes Python and YAML where JSON is expected, so that a message can say what was written and
// what to write.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace shardmark {

/// Returns "line 3, column 14: this is Python: write true in place of True" for the first sign of
/// Python or YAML in a text that is not JSON; nothing if there is none. A text that is JSON, or
/// Hjson, may contain such signs too, so call this only for a text that could not be read.
std::optional<std::string> foreign_notation(std::string_view text);

/// Returns the same for a text without braces whose keys nest by indentation. Hjson would read it
/// as strings, and DeepSpeed then refuses it.
std::optional<std::string> nested_yaml(std::string_view text);

}  // namespace shardmark
