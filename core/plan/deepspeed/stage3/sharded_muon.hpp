// SPDX-License-Identifier: Apache-2.0
// Muon at DeepSpeed's stage 3. Momentum is sharded like gradients. In each step whole matrices are
// gathered, at most reduce_bucket_size elements together. They are dealt to the ranks in rounds,
// each rank makes the update of one matrix per round, and every rank gathers all updates and
// momenta to keep its own shards. With the optimizer on the host a whole sub-group is gathered at
// once, and every rank makes all updates; what lies in files is read and written back for that.
//
// Source: DeepSpeed 0.19's stage3.py, _apply_muon_to_accumulated_grads, _muon_update_sub_group and
// _apply_muon_updates_cpu_offload.
#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <core/plan/deepspeed/orthogonalizer.hpp>
#include <core/plan/deepspeed/stage3/shard_gathers.hpp>
#include <core/plan/deepspeed/step_scalars.hpp>

namespace shardmark {

/// Makes updates of the gradients of the sub-groups that have matrices.
class ShardedMuon {
 public:
  ShardedMuon(DeepSpeedContext& context, Collectives& collectives, StepScalars& scalars,
              OptimizerSwapper& swapper, ShardedParams& params)
      : c_(context),
        w_(context.writer),
        collectives_(collectives),
        scalars_(scalars),
        swapper_(swapper),
        params_(params),
        orthogonalizer_(context),
        gathers_(context, collectives, params) {}

  /// Start-up: divides the matrices into chunks, and acquires the buffers that stay.
  void init();
  /// The update of a step, before its norm is taken.
  void make_updates();

 private:
  void find_chunks(std::size_t g);
  void update_in_rounds(const MuonChunk& chunk);
  void update_round(std::span<const int> ids, std::span<const Operand> grads,
                    std::span<const Operand> momenta);
  void share(std::span<const int> ids, std::span<const Operand> matrices, bool alike,
             std::int64_t most, const std::string& what);
  void update_from_host(const MuonChunk& chunk);
  void update_from(const MuonChunk& chunk);
  void take_own(const MuonChunk& chunk, std::size_t i, Operand update, Operand momentum);
  std::vector<Operand> shards(const MuonChunk& chunk, Operand group) const;
  Operand shard_in(const MuonChunk& chunk, int slot, std::size_t i) const;
  Operand own(int id, Operand matrix) const;
  int passing(const std::string& name, Category category, Dtype dtype, std::int64_t elems);

  DeepSpeedContext& c_;
  PlanWriter& w_;
  Collectives& collectives_;
  StepScalars& scalars_;
  OptimizerSwapper& swapper_;
  ShardedParams& params_;
  Orthogonalizer orthogonalizer_;
  ShardGathers gathers_;
  std::vector<MuonChunk> chunks_;
  std::map<std::pair<std::string, std::int64_t>, int> passing_;  // by name and elements
  int grad_parts_ = no_slot, momentum_parts_ = no_slot;  // of the chunk, as shards on the device
  Operand host_grads_, host_momentum_;                   // of its sub-group, on the host
};

}  // namespace shardmark
