// SPDX-License-Identifier: Apache-2.0
// What the parts of `fully_shard` share: the program that is being written, the writers, the groups
// of parameters and of ranks, and the buffers.
#pragma once

#include <span>
#include <vector>

#include <core/plan/torch/fsdp_groups.hpp>
#include <core/plan/torch/torch_context.hpp>
#include <core/plan/write/rank_groups.hpp>
#include <core/plan/write/state_slots.hpp>

namespace shardmark {

/// The buffers of one group of parameters. PyTorch keeps parameters in fp32 and casts them as it
/// gathers them.
struct FsdpSlots {
  int param = no_slot;      // this rank's shards, padded
  StateSlots states;        // of what this rank holds, not padded
  int grad = no_slot;       // this rank's shards of the reduced gradient
  int upload = no_slot;     // offload: the shards on the device before they are cast
  int wire = no_slot;       // what all_gather receives
  int gathered = no_slot;   // whole parameters, from which modules compute
  int resharded = no_slot;  // what forward leaves if reshard_after_forward is an integer
  int input = no_slot, output = no_slot;  // of reduce_scatter
  int partial = no_slot;                  // reduced among shards, not yet among replicas
  int download = no_slot;                 // offload: a reduced gradient that was cast
  int landing = no_slot;                  // offload: a further micro-batch's gradient on the host
};

/// By which gradients are divided before and after their reductions, and by which of those.
struct GradientDivision {
  double before = 1, after = 1;
  Reduction scatter = Reduction::average, replicas = Reduction::average;
};
/// The division that PyTorch chooses for reductions in `dtype` over shard_ranks * replicas ranks.
GradientDivision gradient_division(const TorchSpec& spec, Dtype dtype, int shard_ranks,
                                   int replicas);

/// The program that is being written, its writers and its buffers.
struct FsdpContext : TorchContext {
  FsdpContext(Program& p, const Deck& deck, const Profile& machine);

  int ranks() const { return program.shard_ranks; }  // that share one copy of the parameters
  int rank() const { return program.partition_rank() % program.shard_ranks; }
  bool shares() const { return ranks() > 1; }
  bool replicates() const {
    return replica_group != no_group && program.partition_ranks() > ranks();
  }
  int world_replicas() const { return program.partition_ranks() / ranks(); }
  bool offloads() const { return spec.cpu_offload; }
  Tier state_tier() const { return offloads() ? Tier::host : Tier::device; }
  Event& collective(Op op, Reduction reduction, Operand send, Operand receive,
                    std::span<const int> params, int group) {
    return collectives.issue(op, reduction, send, receive, params, -1, group);
  }

  const bool clips;
  int shard_group = 0, replica_group = no_group;
  int reshard_group = no_group, reshard_ranks = 0;  // reshard_after_forward is an integer
  const Dtype param_dtype, reduce_dtype;
  const std::vector<FsdpGroup> groups;
  std::vector<FsdpSlots> slots;  // by group
  struct PlaceOfParam {
    int group = -1;
    std::size_t index = 0;
  };
  std::vector<PlaceOfParam> place_of;  // by parameter
  std::vector<int> gradients;          // by parameter: whole, of one micro-batch or of several
  std::vector<int> kept_gradients;     // by parameter: whole, in the type of sums

 private:
  std::vector<FsdpGroup> set_up(const Deck& deck);
  void declare_slots();
  void declare_staging();
};

using FsdpPart = SchedulePart<FsdpContext>;

}  // namespace shardmark
