// SPDX-License-Identifier: Apache-2.0
// What one step looked like from inside, event by event: when each began and ended, how long it
// waited for communication, and how much memory was held after it. report.html draws one; a deck's
// `trace` and `wall_clock_breakdown` ask for more.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <comm/decorators/counting.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark {

class SlotMemory;  // only named: reports include this, and need no Kokkos

/// When one event of the plan was executed.
struct TracedEvent {
  std::int32_t segment = 0, event = 0;  // of the program; event -1: the wait at a segment's end
  std::int64_t begin_ns = 0, end_ns = 0;
  std::int64_t exposed_ns = 0;  // of this time, waiting: for collectives, or copies under way
  std::array<std::int64_t, tier_count> held_bytes{};  // SlotMemory::held_bytes() after it
};

/// When the link carried what a copy moves: it may go on long after its event.
struct TracedCopy {
  std::size_t event = 0;  // of StepTrace::events
  std::int64_t begin_ns = 0, end_ns = 0;
};

/// All that was recorded of one step.
struct StepTrace {
  std::int64_t step = -1;  // counted from the start of training; -1: none was traced
  std::vector<TracedEvent> events;
  std::vector<TracedCopy> copies;             // in order, each after the one before
  std::vector<CollectiveRecord> collectives;  // in order of completion
  std::vector<std::string> collective_names;  // CollectiveRecord::name is an index of it
};

/// When each collective had its lane to itself: from its own start or the end of the one before it,
/// whichever is later, to its end. Each group is a lane. `records` in order of completion, as lanes
/// run them.
std::vector<std::int64_t> lane_begins_ns(const std::vector<CollectiveRecord>& records);

/// Notes an event for as long as it is alive; does nothing where `trace` is null.
class TracedScope {
 public:
  /// Counters that go on while the event runs: what was waited for collectives, or in calls that
  /// make them progress, and for copies. All must outlive the scope.
  TracedScope(StepTrace* trace, const SlotMemory& memory, int segment, int event,
              const std::int64_t& exposed_ns, const std::int64_t& copies_ns);
  ~TracedScope();
  TracedScope(const TracedScope&) = delete;
  TracedScope& operator=(const TracedScope&) = delete;

 private:
  std::int64_t waited_ns() const { return exposed_ns_ + copies_ns_; }

  StepTrace* trace_;
  const SlotMemory& memory_;
  const std::int64_t &exposed_ns_, &copies_ns_;
  TracedEvent noted_;
};

}  // namespace shardmark
