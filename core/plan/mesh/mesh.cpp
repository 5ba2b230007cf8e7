// SPDX-License-Identifier: Apache-2.0
#include <core/plan/mesh/mesh.hpp>

namespace shardmark {
namespace {

// `count` ranks from `first` on, `apart` from each other.
std::vector<int> ranks_from(int first, int count, int apart) {
  std::vector<int> ranks;
  for (int i = 0; i < count; ++i) ranks.push_back(first + i * apart);
  return ranks;
}

}  // namespace

Mesh::Mesh(int world, int rank, const ParallelSpec& parallel)
    : world_(world),
      rank_(rank),
      tensor_ranks_(static_cast<int>(parallel.tensor)),
      sequence_ranks_(static_cast<int>(parallel.sequence)),
      expert_ranks_(static_cast<int>(parallel.expert)),
      same_experts_near_(parallel.same_experts_near) {}

std::vector<int> Mesh::partition_part(int first, int count, int apart) const {
  return ranks_from(first * tensor_ranks_ + tensor_rank(), count, apart * tensor_ranks_);
}

// Either kind of group has ranks that are neighbours or as far apart as the other kind has ranks.
std::vector<int> Mesh::experts_part(bool apart) const {
  const int near = same_experts_near_ ? ranks_of(Holders::of_experts) : expert_ranks_;
  return apart ? ranks_from(rank_ % near, world_ / near, near)
               : ranks_from(rank_ / near * near, near, 1);
}

std::vector<int> Mesh::tensor_group() const {
  return ranks_from(rank_ - tensor_rank(), tensor_ranks_, 1);
}

std::vector<int> Mesh::block(int size) const {
  return partition_part(partition_rank() / size * size, size, 1);
}

std::vector<int> Mesh::stride(int size) const {
  return partition_part(partition_rank() % size, partition_ranks() / size, size);
}

}  // namespace shardmark
