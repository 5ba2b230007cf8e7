// SPDX-License-Identifier: Apache-2.0
// "Did you mean": the known word nearest to an unknown one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardmark {

/// Insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`.
int edit_distance(std::string_view a, std::string_view b);

/// The word of `known` nearest to `word`, the first of equals; empty if none is near enough to be
/// meant.
std::string nearest(std::string_view word, const std::vector<std::string>& known);

}  // namespace shardmark
