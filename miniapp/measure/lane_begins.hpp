// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include <comm/decorators/counting.hpp>

namespace shardmark {

/// For each collective, when it began to have its lane to itself: at its own start or at the end of
/// the collective before it, whichever is later. Each group is a lane. `records` are in order of
/// completion, in which lanes run them.
std::vector<std::int64_t> lane_begins_ns(const std::vector<CollectiveRecord>& records);

}  // namespace shardmark
