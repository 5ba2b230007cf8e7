// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include <core/clock.hpp>
#include <miniapp/execute/slot_memory.hpp>
#include <miniapp/execute/step_trace.hpp>

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

TracedScope::TracedScope(StepTrace* trace, const SlotMemory& memory, int segment, int event,
                         const std::int64_t& exposed_ns, const std::int64_t& copies_ns)
    : trace_(trace), memory_(memory), exposed_ns_(exposed_ns), copies_ns_(copies_ns) {
  if (trace_ == nullptr) return;
  traced_.segment = segment;
  traced_.event = event;
  traced_.exposed_ns = -waited_ns();
  traced_.begin_ns = monotonic_ns();
}

TracedScope::~TracedScope() {
  if (trace_ == nullptr) return;
  traced_.end_ns = monotonic_ns();
  traced_.exposed_ns += waited_ns();
  traced_.held_bytes = memory_.held_bytes();
  trace_->events.push_back(traced_);
}

}  // namespace shardmark
