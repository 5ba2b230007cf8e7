// SPDX-License-Identifier: Apache-2.0
// What interrupts fixed quanta of work: figures of one rank or of several. All pure.
// Finds interruptions that come at regular intervals. Pure.
#pragma once

#include <cstdint>
#include <vector>

namespace shardmark {

/// One quantum of work of one rank.
struct Quantum {
  double start_s = 0;  // after the start of the loop
  double seconds = 0;
};

/// How much longer quanta took than undisturbed ones. Sums, so figures of ranks can be added.
struct NoiseFigures {
  std::int64_t quanta = 0;
  double work_s = 0;  // of all quanta
  double base_s = 0;  // of all quanta, had none been disturbed
  double lost_s = 0;  // by which quanta took longer than undisturbed
  std::int64_t detours = 0;
  double detour_s = 0;  // what the detours took

  double undisturbed_s() const { return quanta > 0 ? base_s / static_cast<double>(quanta) : 0; }
  double lost_part() const { return work_s > 0 ? lost_s / work_s : 0; }
  /// Detours per second of work of one rank.
  double detours_per_s() const { return work_s > 0 ? static_cast<double>(detours) / work_s : 0; }
  double mean_detour_s() const { return detours > 0 ? detour_s / static_cast<double>(detours) : 0; }
  NoiseFigures& operator+=(const NoiseFigures& other);
};

/// The time of an undisturbed quantum: the one that a hundredth of the quanta does not exceed.
double undisturbed_quantum(const std::vector<Quantum>& quanta);

/// A quantum was interrupted (a detour) if it took longer than an undisturbed one by more than
/// this: 1 % of it, at least 1 us.
double detour_from(double undisturbed_s);

NoiseFigures noise_figures(const std::vector<Quantum>& quanta, double undisturbed_s);

/// How much the speed of ranks differs in the same work at the same time: `blocks[r]` are the times
/// of successive blocks of work of rank r, equally many for each. Returns the standard deviation
/// over ranks, relative to the mean, as the root mean square over blocks; 0 for one rank.
double rank_spread(const std::vector<std::vector<double>>& blocks);

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
