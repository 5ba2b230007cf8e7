// SPDX-License-Identifier: Apache-2.0
#include <core/clock.hpp>
#include <miniapp/execute/slot_memory.hpp>
#include <miniapp/execute/step_trace.hpp>

namespace shardmark {

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
