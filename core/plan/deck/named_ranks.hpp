// SPDX-License-Identifier: Apache-2.0
// Ranks that a section of a deck names by number or by host.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace shardmark {

/// Returns the union of `ranks` and of all ranks on `named_hosts`; `hosts` has the host of each
/// rank of the run. Throws DeckError if the run lacks a rank or a host; messages name the keys
/// `ranks` and `hosts` of `section` and the path `deck`. Pure.
std::set<int> named_ranks(const std::vector<std::int64_t>& ranks,
                          const std::vector<std::string>& named_hosts,
                          const std::vector<std::string>& hosts, std::string_view section,
                          const std::string& deck);

}  // namespace shardmark
