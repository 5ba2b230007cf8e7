// SPDX-License-Identifier: Apache-2.0
// Which ranks of a group share a node, and how the traffic between the nodes is divided among the
// ranks. On a node with k ranks, rank l takes care of the part of every array from l/k to (l+1)/k.
// If all nodes have the same k, the ranks with equal l exchange their parts. Otherwise the parts
// are cut at the bounds of all nodes. What lies between two neighbouring cuts is a *rail*: on each
// node exactly one rank drives it. With 1 rank here and 3 there, there are three rails; the single
// rank drives all of them.
#pragma once

#include <cstdint>
#include <vector>

#include <comm/collective.hpp>

namespace shardmark {

/// A place in an array of any length, as a fraction of its length.
struct Cut {
  std::int64_t numerator = 0, denominator = 1;
  /// How many of `elems` elements lie before this place.
  std::int64_t of(std::int64_t elems) const { return elems * numerator / denominator; }
};

/// The nodes of a group as one of its ranks sees them. All functions are pure.
class NodeMap {
 public:
  /// `node_of_rank[r]` identifies the node of rank r by any number; `rank` is this rank.
  NodeMap(const std::vector<int>& node_of_rank, int rank);

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(node_of_.size()); }
  /// The number of nodes. Nodes are numbered by their lowest rank.
  int nodes() const { return static_cast<int>(ranks_.size()); }
  int node() const { return node_of(rank_); }
  int node_of(int rank) const { return node_of_[static_cast<std::size_t>(rank)]; }
  /// The number of `rank` among the ranks of its node.
  int local_of(int rank) const { return local_of_[static_cast<std::size_t>(rank)]; }
  int local() const { return local_of(rank_); }
  /// The ranks of `node`, ascending.
  const std::vector<int>& ranks(int node) const { return ranks_[static_cast<std::size_t>(node)]; }
  /// The number of ranks of `node`, and of this rank's node.
  int locals(int node) const { return static_cast<int>(ranks(node).size()); }
  int locals() const { return locals(node()); }
  int most_locals() const;
  /// The number of ranks on nodes before `node`.
  int before(int node) const { return before_[static_cast<std::size_t>(node)]; }

  int rails() const { return static_cast<int>(cuts_.size()) - 1; }
  /// The elements of rail `rail` in an array of `elems` elements.
  Part rail(int rail, std::int64_t elems) const;
  /// The rank that drives `rail` on `node`, as its number there.
  int driver(int node, int rail) const;
  /// The rails that rank `local` of this node drives; they follow each other.
  const std::vector<int>& rails_of(int local) const {
    return rails_of_[static_cast<std::size_t>(local)];
  }
  /// The elements of all rails of rank `local` of this node in an array of `elems` elements.
  Part share(int local, std::int64_t elems) const;

 private:
  int rank_;
  std::vector<int> node_of_, local_of_, before_;
  std::vector<std::vector<int>> ranks_, rails_of_;
  std::vector<Cut> cuts_;
};

}  // namespace shardmark
