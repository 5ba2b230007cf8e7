// SPDX-License-Identifier: Apache-2.0
// The trace of one step, event by event: when each event began and ended, how long it waited for
// communication, and how much memory was held after it. report.html draws one traced step; `trace`
// and `wall_clock_breakdown` of a deck ask for more.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <comm/decorators/counting.hpp>
#include <core/plan/deck/types.hpp>

namespace shardmark {

class SlotMemory;  // declared only, so that reports, which include this file, need no Kokkos

/// When one event of the plan was executed.
struct TracedEvent {
  std::int32_t segment = 0, event = 0;  // of the program; event -1: the wait at a segment's end
  std::int64_t begin_ns = 0, end_ns = 0;
  std::int64_t exposed_ns = 0;                 // waiting for collectives or copies in this time
  EnumArray<Tier, std::int64_t> held_bytes{};  // SlotMemory::held_bytes() after it
};

/// When the link carried a copy, which may last long after its event.
struct TracedCopy {
  std::size_t event = 0;  // of StepTrace::events
  std::int64_t begin_ns = 0, end_ns = 0;
};

/// All that was recorded of one step.
struct StepTrace {
  std::int64_t step = -1;  // counted from the start of training; -1: none was traced
  std::vector<TracedEvent> events;
  std::vector<TracedCopy> copies;             // in the order in which they were started
  std::vector<CollectiveRecord> collectives;  // in order of completion
  std::vector<std::string> collective_names;  // CollectiveRecord::name is an index of it
};

/// Records an event from construction to destruction; does nothing if `trace` is null.
class TracedScope {
 public:
  /// `exposed_ns` and `copies_ns` are counters that grow while the event runs: the time of waiting
  /// for collectives or making them progress, and of waiting for copies. All must outlive the
  /// scope.
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
  TracedEvent traced_;
};

}  // namespace shardmark
