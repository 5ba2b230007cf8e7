// SPDX-License-Identifier: Apache-2.0
// The energy of a run's timed steps over all nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <miniapp/energy/phase_meter.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// What one node used.
struct NodeEnergy {
  std::string host;
  int ranks = 1;
  std::vector<CounterEnergy> counters;
  std::vector<std::string> missing;  // what is not measured there, and why
  PhaseReadings phases{};            // how it was divided

  /// The counter of the whole node where there is one, else the sum of the parts. Empty: nothing
  /// was measured.
  std::optional<double> joules() const;
  /// The counters that are in the sum.
  std::vector<CounterEnergy> counted() const;
  /// Whether the whole node is in it.
  bool whole() const;
};

/// The energy of one phase.
struct PhaseEnergy {
  double joules = 0;
  double error = 0;  // the part of it by which it may be wrong
};

/// All nodes of a run.
struct EnergyFigure {
  std::vector<NodeEnergy> nodes;
  double seconds = 0, tokens = 0;  // of the timed steps

  /// Empty if a node measured nothing: the sum would be too small.
  std::optional<double> joules() const;
  /// By how much of itself the sum may be wrong, since counters are not up to date when timed steps
  /// begin and end.
  double error() const;
  bool whole() const;
  /// The parts that are in the sum: "processor, memory".
  std::string parts() const;

  /// The sources in the sums: "powercap", "nvml".
  std::vector<std::string> sources() const;
  /// What the counters of `source` measured in a phase on all nodes; with "" those of all sources.
  /// Empty if one of them does not resolve the phase.
  std::optional<PhaseEnergy> phase(EnergyPhase phase, const std::string& source = "") const;
  /// Why phases have no figure, in sentences without a full stop.
  std::vector<std::string> unresolved() const;
};

/// Collective. `meters` and `phases` are null on ranks that read no counters; one rank of each node
/// does.
EnergyFigure collect_energy(const EnergyMeters* meters, const PhaseMeter* phases,
                            const std::string& host, int ranks_of_node, double seconds,
                            double tokens, Peers& peers);

/// The lines of the report.
std::string describe(const EnergyFigure& figure);

}  // namespace shardmark
