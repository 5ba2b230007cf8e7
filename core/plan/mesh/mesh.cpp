// SPDX-License-Identifier: Apache-2.0
#include <core/plan/mesh/mesh.hpp>

namespace shardmark {

Mesh::Mesh(int world, int rank, const ParallelSpec& parallel)
    : world_(world),
      rank_(rank),
      tensor_ranks_(static_cast<int>(parallel.tensor)),
      sequence_ranks_(static_cast<int>(parallel.sequence)),
      expert_ranks_(static_cast<int>(parallel.expert)),
      same_experts_near_(parallel.same_experts_near) {}

std::vector<int> Mesh::partition_part(int first, int count, int apart) const {
  std::vector<int> ranks(static_cast<std::size_t>(count));
  int place = first;
  for (int& rank : ranks) {
    rank = place * tensor_ranks_ + tensor_rank();
    place += apart;
  }
  return ranks;
}

// Either kind of group has ranks that are neighbours or as far apart as the other kind has ranks.
std::vector<int> Mesh::experts_part(bool apart) const {
  const int holders = ranks_of(Holders::of_experts);
  const int near = same_experts_near_ ? holders : expert_ranks_;
  std::vector<int> ranks(static_cast<std::size_t>(apart ? world_ / near : near));
  int next = apart ? rank_ % near : rank_ / near * near;
  for (int& rank : ranks) {
    rank = next;
    next += apart ? near : 1;
  }
  return ranks;
}

std::vector<int> Mesh::tensor_group() const {
  std::vector<int> ranks(static_cast<std::size_t>(tensor_ranks_));
  int next = rank_ - tensor_rank();
  for (int& rank : ranks) rank = next++;
  return ranks;
}

std::vector<int> Mesh::block(int size) const {
  return partition_part(partition_rank() / size * size, size, 1);
}

std::vector<int> Mesh::stride(int size) const {
  return partition_part(partition_rank() % size, partition_ranks() / size, size);
}

}  // namespace shardmark
