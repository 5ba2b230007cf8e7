// SPDX-License-Identifier: Apache-2.0
// The energy of a run's timed steps over all nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <miniapp/energy/meters.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// What one node used.
struct NodeEnergy {
  std::string host;
  int ranks = 1;
  std::vector<CounterEnergy> counters;
  std::vector<std::string> missing;  // what is not measured there, and why

  /// The counter of the whole node where there is one, else the sum of the parts. Empty: nothing
  /// was measured.
  std::optional<double> joules() const;
  /// Whether the whole node is in it.
  bool whole() const;
};

/// All nodes of a run.
struct EnergyFigure {
  std::vector<NodeEnergy> nodes;
  double seconds = 0, tokens = 0;  // of the timed steps

  /// Empty if a node measured nothing: the sum would be too small.
  std::optional<double> joules() const;
  bool whole() const;
  /// The parts that are in the sum: "processor, memory".
  std::string parts() const;
};

/// Collective. `meters` is null on ranks that read no counters; one rank of each node does.
EnergyFigure collect_energy(const EnergyMeters* meters, const std::string& host, int ranks_of_node,
                            double seconds, double tokens, Peers& peers);

/// The lines of the report.
std::string describe(const EnergyFigure& figure);

}  // namespace shardmark
