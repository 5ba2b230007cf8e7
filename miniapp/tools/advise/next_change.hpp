// SPDX-License-Identifier: Apache-2.0
// The next best change: one change to a deck that makes it fit, or that makes it faster.
// At which bandwidth of the network another candidate is the better choice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <miniapp/tools/advise/evaluate.hpp>

namespace shardmark {

/// A change, beside the deck as it is.
struct NextChange {
  Candidate as_is, changed;
};

/// Evaluates single changes of the deck under its own schedule: another stage, twice or half the
/// micro-batch at the same global batch, another degree of tensors, samples or experts,
/// recomputation, offload to the host, buckets and overlap. If the deck does not fit, the answer is
/// the fastest change with which it does; otherwise the fastest of all, if it gains at least 1 %.
/// Empty: no single change helps. Changes that DeepSpeed or the reader refuses are left out. Throws
/// DeckError if the deck itself is wrong.
std::optional<NextChange> next_change(const AdviseCase& question);

/// One or two sentences, also where there is no such change.
std::string next_change_text(const std::optional<NextChange>& next, bool fits);
/// {"deck_changes", "step_s", "tokens_per_s", "device_bytes"}, or null.
nlohmann::ordered_json next_change_json(const std::optional<NextChange>& next);

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
