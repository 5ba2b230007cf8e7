// SPDX-License-Identifier: Apache-2.0
// Walks the candidates and picks the best one.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <miniapp/advise/evaluate.hpp>
#include <miniapp/predict/prediction.hpp>

namespace shardmark {

/// At which bandwidth of the network another candidate is best.
struct Crossing {
  double node_bytes_per_s = 0;  // of a node; of a rank's link where all ranks share a node
  bool below = true;            // the other candidate is best below it, or above it
  std::size_t candidate = 0;    // in Advice::candidates
};

struct Advice {
  AdviseCase question;
  std::int64_t global_batch = 0;
  std::vector<Candidate>
      candidates;  // that fit, the fastest first; the best of each stage is exact
  std::vector<Candidate> refused;
  std::vector<Candidate> best_of_stage;  // the fastest that fits of each stage, the fastest first
  PredictedPoint best;                   // with its sensitivities
  std::vector<Crossing> crossings;
  std::size_t considered = 0;
};

/// Evaluates all candidates for `global_batch` sequences per step (0: what the deck gives). Uses a
/// thread per core. Throws DeckError if the batch cannot be divided among the ranks or if the
/// deck itself is wrong, and MemoryError, with the number of ranks that would be enough, if nothing
/// fits.
Advice advise(AdviseCase question, std::int64_t global_batch);

/// The bandwidth between nodes that the machine has for one node; of a rank's link if all ranks
/// share a node.
double network_rate(const Machine& machine, int ranks, int ranks_per_node);

/// The machine with `factor` times the bandwidth of that level.
Machine with_network_rate(Machine machine, int ranks, int ranks_per_node, double factor);

}  // namespace shardmark
