// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <miniapp/measure/lane_begins.hpp>

namespace shardmark {

std::vector<std::int64_t> lane_begins_ns(const std::vector<CollectiveRecord>& records) {
  std::vector<std::int64_t> begins;
  std::map<int, std::int64_t> free_by_group;
  for (const CollectiveRecord& r : records) {
    std::int64_t& free_ns = free_by_group.try_emplace(r.group, INT64_MIN).first->second;
    begins.push_back(std::min(r.done_ns, std::max(r.issue_ns, free_ns)));
    free_ns = std::max(free_ns, r.done_ns);
  }
  return begins;
}

}  // namespace shardmark
