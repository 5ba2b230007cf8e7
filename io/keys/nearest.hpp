// SPDX-License-Identifier: Apache-2.0
// The known words that somebody who typed an unknown one may have meant, for messages that ask "did
// you mean". Names of files, keys, values, commands and options are all looked up here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardmark {

/// Returns the number of insertions, deletions, substitutions and swaps of neighbours that turn `a`
/// into `b`.
int edit_distance(std::string_view a, std::string_view b);

/// Returns the words of `known` that `word` may stand for. The first of these rules that finds any
/// decides, and upper case and separators (`_`, `-`, `.`, blank) make no difference:
///
/// 1. words that are the same otherwise;
/// 2. words that contain each part of `word` as a part of their own: `dgx-80gb` finds all names
/// such
///    as `dgx-a100-80gb`, and `accumulation` finds `gradient_accumulation_steps`;
/// 3. words that are one slip of the keyboard away;
/// 4. words that contain `word`, from the beginning of a part on if there are any: `mi250` finds
///    `frontier-mi250x`;
/// 5. the longest word that `word` contains as parts of its own or begins with, if it is at least
///    half of `word`: `output` finds `out`;
/// 6. words at the smallest distance, if it is at most a third of the letters.
///
/// Shorter words come first, then those that come first in `known`. Empty if none is near enough to
/// be what the user meant.
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& known);

/// Returns `did you mean a, b or c?` for the words that `nearest` finds, each within `quote`, at
/// most 12 of them; empty if it finds none.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& known,
                         std::string_view quote = "");

}  // namespace shardmark
