// SPDX-License-Identifier: Apache-2.0
// The mesh of ranks: the axes over which a run is divided, and the groups of one rank on them. The
// last axis has neighbours. Eight ranks with tensors over two of them:
//
//     tensors        0 1 | 2 3 | 4 5 | 6 7    each group holds one copy of every layer
//     partition      0 2 4 6 , 1 3 5 7        ZeRO divides states and sums gradients here
//     a block of 2   0 2 | 4 6 , 1 3 | 5 7    a cut of the partition: hpZ, hybrid sharding
//     its stride     0 4 , 2 6 , 1 5 , 3 7    the same place in each block
//
// Source: DeepSpeed 0.19.8's utils/groups.py, _init_tp_mesh_device; recorded in
// tests/data/deepspeed_axes.json.
#pragma once

#include <vector>

#include <core/plan/deck/parallel.hpp>

namespace shardmark {

/// The place of one rank among all, and the groups to which it belongs. Groups list ranks of the
/// world in ascending order.
class Mesh {
 public:
  Mesh() = default;
  /// The degrees of `parallel` must divide `world`.
  Mesh(int world, int rank, const ParallelSpec& parallel);

  /// The ranks that share one partition of the states, over which gradients are summed, and this
  /// rank's place among them. Each of them has data of its own.
  int partition_ranks() const { return world_ / tensor_ranks_; }
  int partition_rank() const { return rank_ / tensor_ranks_; }
  /// The ranks that divide each layer, and this rank's place among them.
  int tensor_ranks() const { return tensor_ranks_; }
  int tensor_rank() const { return rank_ % tensor_ranks_; }
  /// Whether the partition spans the world, so that no axis but data has more than one rank.
  bool is_flat() const { return tensor_ranks_ == 1; }

  std::vector<int> partition_group() const { return partition_part(0, partition_ranks(), 1); }
  std::vector<int> tensor_group() const;
  /// The consecutive `size` ranks of the partition among which this rank is.
  std::vector<int> block(int size) const;
  /// The ranks of the partition with this rank's place in their blocks of `size`.
  std::vector<int> stride(int size) const;

 private:
  // Of the partition's ranks: `count` from `first` on, `apart` places from each other.
  std::vector<int> partition_part(int first, int count, int apart) const;

  int world_ = 1, rank_ = 0, tensor_ranks_ = 1;
};

}  // namespace shardmark
