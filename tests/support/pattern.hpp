// SPDX-License-Identifier: Apache-2.0
// Regular expressions (ECMAScript's) for tests. They are compiled in one file, because <regex>
// costs each file that includes it several seconds.
#pragma once

#include <string>
#include <vector>

namespace shardmark::test {

/// A match and its groups. Empty if there is no match; a group that took no part is "".
using Match = std::vector<std::string>;

/// Matches the whole text.
Match match_whole(const std::string& text, const std::string& pattern);
/// Returns the first match in the text.
Match find_match(const std::string& text, const std::string& pattern);
/// Returns all matches in the text, from left to right.
std::vector<Match> find_matches(const std::string& text, const std::string& pattern);

bool matches(const std::string& text, const std::string& pattern);  // the whole text
bool contains(const std::string& text, const std::string& pattern);

}  // namespace shardmark::test
