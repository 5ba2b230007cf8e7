// SPDX-License-Identifier: Apache-2.0
// What a step sends between nodes, beside what the papers on ZeRO count. The ranks of a node come
// from the deck, from the command line, or from the run itself, so nodes can be emulated.
#pragma once

#include <cstdint>
#include <optional>

#include <nlohmann/json_fwd.hpp>

#include <core/plan/plan.hpp>

namespace shardmark {

/// What all ranks of this rank's node receive from other nodes in one step in the steady state. As
/// in volume_per_parameter(), an all_reduce counts twice, padding is included, and the factor
/// (N-1)/N is not. A collective of ranks of which a node has several counts once per node, an
/// all_to_all once per rank, since no two ranks receive the same.
struct NodeVolume {
  std::int64_t nodes = 1, ranks_per_node = 1;
  double bytes = 0;
  /// Elements of the model's type per parameter: half as many as were sent as int8 beside fp16.
  double per_parameter = 0;
  /// `theory` is what section 3 of the ZeRO++ paper (arXiv 2306.10209) gives for `per_parameter` if
  /// each parameter is gathered in forward and in backward of each micro-batch; `theory_of_zero3`
  /// is what it gives without the three keys of ZeRO++. Only DeepSpeed's stage 3 has them.
  std::optional<double> theory, theory_of_zero3;
};

/// Empty if all ranks share a node, if the ranks fill no whole number of nodes, or if nobody said
/// how many ranks a node has (the deck does not, and `ranks_per_node` is 1).
std::optional<NodeVolume> volume_between_nodes(const Program& program, const Deck& deck,
                                               int ranks_per_node);

/// One line without its end, for people.
std::string describe(const NodeVolume& volume, const Program& program);
/// Returns the same figures for scripts, as docs/output.md lists them.
nlohmann::ordered_json print_json(const NodeVolume& volume);

}  // namespace shardmark
