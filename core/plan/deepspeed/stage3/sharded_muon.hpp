// SPDX-License-Identifier: Apache-2.0
// Muon at DeepSpeed's stage 3. Momentum is sharded like gradients. In each step whole matrices are
// gathered chunk by chunk; shards of several matrices travel in one message.
//
// Source: DeepSpeed 0.19's stage3.py, _apply_muon_to_accumulated_grads, _muon_update_sub_group,
// _apply_muon_updates_cpu_offload and _partitioned_buffers_all_gather.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <core/plan/deepspeed/muon.hpp>
#include <core/plan/deepspeed/muon_buffers.hpp>
#include <core/plan/deepspeed/stage3/stage3_params.hpp>

namespace shardmark {

/// Muon on sharded matrices, in the optimizer's place on the device or on the host.
std::unique_ptr<Muon> muon_of_shards(StageContext& context, ShardedParams& params);

/// The chunks of matrices, and their gathers.
class ShardedMuon : public Muon {
 public:
  ShardedMuon(StageContext& context, ShardedParams& params);
  void init() override;

 protected:
  /// Matrices of a sub-group that are gathered together. Each rank's shards lie side by side.
  struct Chunk {
    std::size_t group = 0;
    std::vector<int> params;
    std::vector<std::int64_t> at;  // where each shard begins
    std::int64_t row = 0;          // elements of all shards
  };
  std::size_t batches() const override { return chunks_.size(); }
  const Chunk& chunk(std::size_t number) const { return chunks_[number]; }

  /// The type in which matrices are gathered and iterated on: with the optimizer on the host that
  /// of the sums of gradients, otherwise that of communication.
  Dtype type() const { return buffers_.type(); }
  /// Whether whole matrices have one rank's shards as they are.
  bool are_whole(Dtype shards) const { return c_.world() == 1 && shards == type(); }
  /// Gathers lists of shards, which have an operand per matrix, into the slots `whole`.
  void gather_shards(const Chunk& chunk, const std::vector<std::vector<Operand>>& lists,
                     const std::vector<int>& whole);
  /// A buffer for the whole matrices of a chunk, and where each lies there.
  int whole_slot(const Chunk& chunk, const std::string& name) {
    return passing(name, Category::gathered, type(), chunk.row * c_.world());
  }
  std::vector<Operand> matrices(const Chunk& chunk, int whole) const;

  /// The shards of a chunk among those of its sub-group, and side by side in a slot of their own.
  std::vector<Operand> shards(const Chunk& chunk, Operand group) const;
  Operand shard_in(const Chunk& chunk, int slot, std::size_t i) const {
    return w_.read(slot, chunk.at[i], params_.shard(chunk.params[i]));
  }
  /// This rank's shard of a whole matrix, without padding.
  Operand own(int id, Operand matrix) const {
    return w_.read(matrix, params_.shard(id) * c_.program.partition_rank(), params_.real(id));
  }
  /// Acquires a buffer.
  int passing(const std::string& name, Category category, Dtype dtype, std::int64_t elems) {
    const int slot = passing_.slot(name, category, dtype, elems);
    w_.acquire(slot);
    return slot;
  }

  ShardedParams& params_;

 private:
  void find_chunks(std::size_t g);

  std::vector<Chunk> chunks_;
  SizedSlots passing_;
  GatherBuffers buffers_;
};

}  // namespace shardmark
