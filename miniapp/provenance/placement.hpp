// SPDX-License-Identifier: Apache-2.0
// What about where ranks and threads run makes times worse than they need be.
#pragma once

#include <string>
#include <vector>

#include <miniapp/measure/result.hpp>

namespace shardmark {

/// One sentence each: ranks that share too few cores (two bound to one core, say), a rank with more
/// threads than cores, ranks that may wander between NUMA nodes, processors of several models.
/// Pure: the same on every rank. Few sentences however many ranks there are.
std::vector<std::string> placement_warnings(const std::vector<RankInfo>& ranks);

}  // namespace shardmark
