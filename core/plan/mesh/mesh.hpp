// SPDX-License-Identifier: Apache-2.0
// The mesh of ranks: the axes over which a run is divided, and the groups of one rank on them. The
// last axis has neighbours. Eight ranks with tensors over two of them:
//
//     tensors        0 1 | 2 3 | 4 5 | 6 7    each group holds one copy of every layer
//     partition      0 2 4 6 , 1 3 5 7        ZeRO divides states and sums gradients here
//     a block of 2   0 2 | 4 6 , 1 3 | 5 7    a cut of the partition: hpZ, hybrid sharding,
//     sequences its stride     0 4 , 2 6 , 1 5 , 3 7    the same place in each block
//
// Ranks that divide sequences have all weights, and other gradients. So they are a block of the
// partition, which they do not make smaller; a block has one sample at a time. Ranks that divide
// experts are a block of the world. The experts of one rank are held by those at the same place of
// other blocks, which divide their states and add up their gradients:
//
//     experts        0 1 | 2 3 | 4 5 | 6 7    each group has all experts of a layer
//     same experts   0 2 4 6 , 1 3 5 7        states and gradients of experts
//
// Beside divided tensors a group of experts may have several groups of tensors, or be a part of
// one: the ranks of a group of tensors have the same tokens, of which each sends a part.
//
// Source: DeepSpeed 0.19.8's utils/groups.py, _init_tp_mesh_device and
// _create_expert_and_data_parallel, module_inject/auto_ep_folding.py, and
// runtime/sequence_parallel/parallel_state_sp.py; recorded in tests/data/deepspeed_axes.json.
#pragma once

#include <vector>

#include <core/plan/deck/parallel.hpp>

namespace shardmark {

/// The place of one rank among all, and the groups to which it belongs. Groups list ranks of the
/// world in ascending order.
class Mesh {
 public:
  Mesh() = default;
  /// The degrees of `parallel` must divide `world`. An integer converts to a mesh of that many
  /// ranks, which divide nothing but the partition.
  Mesh(int world, int rank = 0, const ParallelSpec& parallel = {});

  /// The ranks that share one partition of the states, over which gradients are summed, and this
  /// rank's place among them.
  int partition_ranks() const { return world_ / tensor_ranks_; }
  int partition_rank() const { return rank_ / tensor_ranks_; }
  /// The ranks that divide each layer, and this rank's place among them.
  int tensor_ranks() const { return tensor_ranks_; }
  int tensor_rank() const { return rank_ % tensor_ranks_; }
  /// The ranks that divide each sample, and this rank's place among them.
  int sequence_ranks() const { return sequence_ranks_; }
  int sequence_rank() const { return partition_rank() % sequence_ranks_; }
  /// The ranks that divide the experts of each layer, and this rank's place among them.
  int expert_ranks() const { return expert_ranks_; }
  int expert_rank() const { return expert_rank_of(rank_); }
  /// The place of another rank among those that divide its experts.
  int expert_rank_of(int rank) const {
    return same_experts_near_ ? rank / ranks_of(Holders::of_experts) : rank % expert_ranks_;
  }
  /// How many ranks hold a parameter, and this rank's place among them.
  int ranks_of(Holders h) const {
    return h == Holders::all ? partition_ranks() : world_ / expert_ranks_;
  }
  int place_in(Holders h) const {
    if (h == Holders::all) return partition_rank();
    return same_experts_near_ ? rank_ % ranks_of(h) : rank_ / expert_ranks_;
  }
  /// How many parts of the mesh have samples of their own, and the one to which this rank belongs.
  int data_parts() const { return partition_ranks() / sequence_ranks_; }
  int data_part() const { return partition_rank() / sequence_ranks_; }
  /// The neighbours that have the same samples.
  int sharing() const { return tensor_ranks_ * sequence_ranks_; }

  std::vector<int> partition_group() const { return partition_part(0, partition_ranks(), 1); }
  std::vector<int> tensor_group() const;
  std::vector<int> sequence_group() const { return block(sequence_ranks_); }
  /// The ranks that together have all experts, and those that have the same ones.
  std::vector<int> expert_group() const { return experts_part(same_experts_near_); }
  std::vector<int> same_experts_group() const { return experts_part(!same_experts_near_); }
  /// The consecutive `size` ranks of the partition among which this rank is.
  std::vector<int> block(int size) const;
  /// The ranks of the partition with this rank's place in their blocks of `size`.
  std::vector<int> stride(int size) const;

 private:
  // Of the partition's ranks: `count` from `first` on, `apart` places from each other.
  std::vector<int> partition_part(int first, int count, int apart) const;
  // Of all ranks: neighbours, or those at the same place among neighbours.
  std::vector<int> experts_part(bool apart) const;

  int world_ = 1, rank_ = 0, tensor_ranks_ = 1, sequence_ranks_ = 1, expert_ranks_ = 1;
  bool same_experts_near_ = false;
};

}  // namespace shardmark
