// SPDX-License-Identifier: Apache-2.0
// Sets of small numbers as the kernel writes them: "0-3,8". Cores, NUMA nodes, ranks.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardmark {

/// `numbers` ascending and without duplicates; {0, 1, 2, 3, 8} gives "0-3,8", none gives "".
std::string format_numbers(const std::vector<int>& numbers);

/// The reverse, ascending. Empty if `text` is no such list; blanks at its end are ignored.
std::vector<int> parse_numbers(std::string_view text);

}  // namespace shardmark
