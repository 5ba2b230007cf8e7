// SPDX-License-Identifier: Apache-2.0
#include <comm/clock.hpp>
#include <miniapp/step_trace.hpp>

namespace shardmark {

TracedScope::TracedScope(StepTrace* trace, const SlotMemory& memory, int segment, int event,
                         const std::int64_t& exposed_ns)
    : trace_(trace), memory_(memory), exposed_now_ns_(exposed_ns) {
  if (trace_ == nullptr) return;
  noted_.segment = segment;
  noted_.event = event;
  noted_.exposed_ns = -exposed_ns;
  noted_.begin_ns = monotonic_ns();
}

TracedScope::~TracedScope() {
  if (trace_ == nullptr) return;
  noted_.end_ns = monotonic_ns();
  noted_.exposed_ns += exposed_now_ns_;
  noted_.held_bytes = memory_.held_bytes();
  trace_->events.push_back(noted_);
}

}  // namespace shardmark
