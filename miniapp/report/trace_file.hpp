// SPDX-License-Identifier: Apache-2.0
// A run's first timed steps in the trace-event format of Chrome, which Perfetto reads: a process a
// rank, in it a lane each for compute, for the communication of each group, and for copies.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <core/plan/plan.hpp>
#include <miniapp/execute/step_trace.hpp>

namespace shardmark {

/// So many timed steps are traced; the rest of the run is not disturbed, and files stay small.
inline constexpr std::int64_t most_traced_steps = 3;

/// Where a rank's time stamps stand among those of all.
struct TraceClock {
  std::int64_t offset_ns = 0;  // to rank 0's clock: clock_offset_ns()
  std::int64_t zero_ns = 0;    // the trace's beginning, on rank 0's clock
};

/// The beginning of a trace, before the first rank's events: an object that trace_end() closes.
std::string trace_begin(const Program& program, const std::string& deck_name);

/// Events of this rank, with commas between: metadata, a complete event ("X", us) for each kernel,
/// copy, wait and collective, counters of what is held of each tier. On a lane nothing overlaps: a
/// collective's event begins when it has its lane to itself, and `queued_us` says how long before
/// that it was issued. Sizes, names and parameters are in `args`.
std::string trace_events(const Program& program, const std::vector<StepTrace>& steps,
                         const TraceClock& clock, const std::string& host);

/// The end of the file, after the last rank's events.
std::string trace_end();

}  // namespace shardmark
