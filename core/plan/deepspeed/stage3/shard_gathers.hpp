// SPDX-License-Identifier: Apache-2.0
// How whole matrices reach every rank at stage 3: shards of several matrices travel in one message.
//
// Source: DeepSpeed 0.19's stage3.py, _partitioned_buffers_all_gather.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include <core/plan/deepspeed/stage3/stage3_params.hpp>

namespace shardmark {

/// Matrices of a sub-group that are gathered together. Each rank's shards lie side by side.
struct MuonChunk {
  std::size_t group = 0;
  std::vector<int> params;
  std::vector<std::int64_t> at;  // where each shard begins
  std::int64_t row = 0;          // elements of all shards
};

/// Writes the gathers, and holds the buffers that they send from and receive in.
class ShardGathers {
 public:
  ShardGathers(DeepSpeedContext& context, Collectives& collectives, const ShardedParams& params)
      : c_(context), w_(context.writer), collectives_(collectives), params_(params) {}

  /// The type in which matrices are gathered and iterated on: with the optimizer on the host that
  /// of the sums of gradients, otherwise that of communication.
  Dtype type() const { return c_.offloads() ? c_.precision.grad_accum : c_.precision.comm; }
  /// Whether whole matrices have one rank's shards as they are.
  bool are_whole(Dtype shards) const { return c_.world() == 1 && shards == type(); }

  /// Start-up: acquires the buffers that stay if these chunks are gathered in each step, one list
  /// of shards or two in a message.
  void init(const std::vector<MuonChunk>& chunks, int lists);
  /// Gathers lists of shards, which have an operand per matrix, into the slots `whole`.
  void gather(const MuonChunk& chunk, const std::vector<std::vector<Operand>>& lists,
              const std::vector<int>& whole);
  /// The elements of a slot for the whole matrices of a chunk.
  std::int64_t whole_elems(const MuonChunk& chunk) const { return chunk.row * c_.world(); }
  /// Where the matrices of a chunk lie in such a slot.
  std::vector<Operand> matrices(const MuonChunk& chunk, int whole) const;

 private:
  struct Buffers {
    int local = no_slot, gathered = no_slot;
  };
  Buffers buffers_of(std::int64_t row);

  DeepSpeedContext& c_;
  PlanWriter& w_;
  Collectives& collectives_;
  const ShardedParams& params_;
  std::map<std::int64_t, Buffers> buffers_;  // by the elements that each rank sends
};

}  // namespace shardmark
