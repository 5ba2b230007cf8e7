// SPDX-License-Identifier: Apache-2.0
// At which bandwidth of the network another candidate is the better choice.
#pragma once

#include <vector>

#include <miniapp/tools/advise/evaluate.hpp>

namespace shardmark {

/// A range of bandwidths in which another candidate than the best one is faster.
struct Crossing {
  double node_bytes_per_s = 0;   // where it begins: of a node; of a rank's link on a single node
  bool below = true;             // the other candidate is faster below it, or above it
  double until_bytes_per_s = 0;  // where the range ends, farther from the machine's bandwidth
  double gain = 0;               // the largest part by which its steps are shorter
  std::size_t candidate = 0;     // an index of `contenders`
};

/// The ranges from 1/64 to 16 times the machine's bandwidth in which one of `contenders` beats the
/// first one by more than 1 %, from the slowest network to the fastest. Neighbouring ranges of the
/// same candidate are one range.
std::vector<Crossing> crossings_of(const AdviseCase& question,
                                   const std::vector<Candidate>& contenders);

/// The bandwidth between nodes that the machine has for one node; of a rank's link if all ranks
/// share a node.
double network_rate(const Machine& machine, int ranks, int ranks_per_node);

/// The machine with `factor` times the bandwidth of that level.
Machine with_network_rate(Machine machine, int ranks, int ranks_per_node, double factor);

}  // namespace shardmark
