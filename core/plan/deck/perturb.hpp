// SPDX-License-Identifier: Apache-2.0
// The section `perturb` of a deck: ranks that are made slower on purpose, to see what a straggler
// costs the others. Every draw depends on the seed, the rank and the step alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace shardmark {

/// A thread beside the computations that writes to memory: so many 10^9 bytes per second, or as
/// many as it can in a part of the time. At most one of both is above 0.
struct MemoryTraffic {
  double gbps = 0, share = 0;
  bool active() const { return gbps > 0 || share > 0; }
  bool operator==(const MemoryTraffic&) const = default;
};

/// Who is made slower, when, and by how much. Such a run is unofficial; neither its plan nor its
/// values change.
struct PerturbSpec {
  // Who: the union of these.
  std::vector<std::int64_t> ranks;
  std::vector<std::string> hosts;
  std::int64_t random = 0;  // so many ranks, drawn
  // When: each such step, with this probability, drawn for each rank.
  std::int64_t every = 1;
  double probability = 1;
  // How: computing takes `factor` times as long, a pause comes before the first computation, and a
  // thread of the rank keeps the memory busy.
  double factor = 1, pause_ms = 0;
  std::optional<double> tail;  // pauses have a Pareto distribution of this shape
  MemoryTraffic memory;
  std::uint64_t seed = 1;
  bool active() const { return factor > 1 || pause_ms > 0 || memory.active(); }
  bool operator==(const PerturbSpec&) const = default;
};

/// What happens to one rank in one step.
struct Slowness {
  double factor = 1;
  std::int64_t pause_ns = 0;
  MemoryTraffic memory;
};

/// Returns the ranks that are made slower, in ascending order; `hosts` names the host of each rank.
/// Throws DeckError if the run lacks a rank or a host; `deck` is the deck's path. Pure.
std::vector<int> slowed_ranks(const PerturbSpec& spec, const std::vector<std::string>& hosts,
                              const std::string& deck);

/// Returns what happens in `step` to a rank that is made slower. Heavy-tailed pauses are at least
/// `pause_ms` and at most 1000 times as long. Pure.
Slowness slowness(const PerturbSpec& spec, int rank, std::int64_t step);

/// "factor 2, pauses of 10 ms, every 2 steps", for reports.
std::string describe(const PerturbSpec& spec);

}  // namespace shardmark
