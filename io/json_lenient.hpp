// SPDX-License-Identifier: Apache-2.0
// DeepSpeed reads its config as Hjson. Of that, decks in the wild use comments and trailing commas.
#pragma once

#include <string>
#include <string_view>

namespace shardmark {

/// The same text with comments (`//`, `#`, `/* */`) and trailing commas replaced by blanks, so that
/// every remaining character keeps its line and column. What stands in strings is left alone.
std::string blank_lenient(std::string_view text);

}  // namespace shardmark
