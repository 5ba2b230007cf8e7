// SPDX-License-Identifier: Apache-2.0
// Finds interruptions that come at regular intervals. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace shardmark {

/// An interruption of one rank.
struct Detour {
  double at_s = 0;  // after the start of the loop
  double seconds = 0;
};

/// Interruptions at regular intervals.
struct Period {
  double period_s = 0;
  double detour_s = 0;   // mean cost of one
  double hit_part = 0;   // at which part of the regular times there was one
  double lost_part = 0;  // of the time of the rank
};

/// Returns at most three periods, the one with the strongest signal first. `span_s` is the length
/// of the loop and `quantum_s` that of a quantum. Periods are looked for between two quanta and a
/// sixteenth of the span, among the first 10 000 detours and 10 000 frequencies.
///
/// The signal at a frequency is the squared length of the sum of unit vectors, one per detour,
/// whose angle is its time in units of the period, divided by the number of detours (Rayleigh's
/// test). For detours at random times it exceeds z with probability exp(-z). A signal counts if it
/// exceeds the level of the frequencies around it by so much that chance finds one in 10^5
/// searches; of several harmonics the longest period counts. The longer half of the detours is
/// searched as well, the longer half of that, and so on. Detours of a period are removed before the
/// next is sought.
std::vector<Period> find_periods(const std::vector<Detour>& detours, double span_s,
                                 double quantum_s);

}  // namespace shardmark
