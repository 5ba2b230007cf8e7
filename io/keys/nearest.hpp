// SPDX-License-Identifier: Apache-2.0
// The known word nearest to an unknown one, for messages that ask "did you mean".
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardmark {

/// Returns the number of insertions, deletions, substitutions and swaps of neighbours that turn `a`
/// into `b`.
int edit_distance(std::string_view a, std::string_view b);

/// Returns the word of `known` nearest to `word`, or the first of several; empty if none is near
/// enough to be what the user meant.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace shardmark
