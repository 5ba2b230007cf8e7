// SPDX-License-Identifier: Apache-2.0
// The first timed steps of a run in the trace-event format of Chrome, which Perfetto reads. Each
// rank is a process with one lane for compute, one for the communication of each group, and one for
// copies.
// A predicted step in the form of a traced one, so that the drawings and traces of runs also show
// predictions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <core/plan/plan.hpp>
#include <core/plan/price/price.hpp>
#include <miniapp/execute/step_trace.hpp>

namespace shardmark {

/// How many timed steps are traced at most, so that the rest of the run is not disturbed and the
/// file stays small.
inline constexpr std::int64_t most_traced_steps = 3;

/// Converts the time stamps of a rank to those of the trace.
struct TraceClock {
  std::int64_t offset_ns = 0;  // to rank 0's clock: clock_offset_ns()
  std::int64_t zero_ns = 0;    // the beginning of the trace, on rank 0's clock
};

/// The text before the first rank's events: the beginning of an object that `trace_end` closes.
std::string trace_begin(const Program& program, const std::string& deck_name);

/// The events of this rank, separated by commas: metadata, a complete event ("X", us) for each
/// kernel, copy, wait and collective, and counters of the bytes held in each tier. Events of a lane
/// do not overlap: that of a collective begins when the collective has its lane to itself, and
/// `queued_us` says how long before that it was issued. Sizes, names and parameters are in `args`.
std::string trace_events(const Program& program, const std::vector<StepTrace>& steps,
                         const TraceClock& clock, const std::string& host);

/// The end of the file, after the last rank's events.
inline constexpr const char* trace_end = "\n]}\n";

/// The events of `priced`, a price of `program`, in nanoseconds from the start of the step. Buffers
/// that are held are not part of it.
StepTrace predicted_trace(const Program& program, const PricedStep& priced);

}  // namespace shardmark
