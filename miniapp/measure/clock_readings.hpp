// SPDX-License-Identifier: Apache-2.0
// Several clocks read at one moment, so that the span of the timed steps can be judged: a clock
// that runs slow makes a figure of merit that is too high.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// Nanoseconds, except for the counter of the processor, whose ticks have no known length.
struct ClockReadings {
  std::int64_t monotonic = 0;  // std::chrono::steady_clock, which all figures are made from
  std::int64_t wall = 0;       // std::chrono::system_clock
  std::int64_t kernel = 0;     // CLOCK_MONOTONIC_RAW, asked of the kernel by a system call
  std::int64_t ticks = 0;      // the processor's counter; 0 where it is missing or not constant
};

/// Reads all clocks within a few microseconds of each other. Not collective.
ClockReadings read_clocks();

/// What the timed span lasted by each clock. `start` is from before the warm-up; where the warm-up
/// was long enough, it says how long a tick of that counter is.
struct ClockSpans {
  ClockReadings start, begin, end;
};

/// What disagrees by more than 0.5 %, as a text; empty if all agree. Since reading the clocks and
/// leaving a barrier take time, clocks of a rank may always differ by 5 ms and ranks by 1 s; the
/// wall clock, which time services set, by 50 ms.
/// `ranks` has the timed span of each rank by its kernel's clock, in ns.
std::string clock_disagreement(const ClockSpans& spans, const std::vector<std::int64_t>& ranks);

/// Collective. The disagreement that the lowest rank found, with the rank; empty: none.
std::string compare_clocks(const ClockSpans& spans, Peers& peers);

}  // namespace shardmark
