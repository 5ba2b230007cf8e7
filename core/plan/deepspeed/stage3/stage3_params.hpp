// SPDX-License-Identifier: Apache-2.0
// Parameters of DeepSpeed's stage 3: shards in sub-groups, and whole parameters while they are
// gathered. This part carries out what the coordinator decides.
//
// With zero_hpz_partition_size H (ZeRO++'s hpZ) each rank that drops a parameter keeps a secondary
// copy, cut over the H ranks of its block, and gathers the parameter from there until the step is
// done; then the copies of all but frozen parameters are dropped. A skipped step keeps them.
// Start-up, which drops each parameter once, leaves copies too.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <core/plan/deepspeed/stage3/optimizer_swapper.hpp>
#include <core/plan/deepspeed/stage3/param_coordinator.hpp>
#include <core/plan/deepspeed/stage3/param_swapper.hpp>
#include <core/plan/deepspeed/stage3/quantized_gather.hpp>
#include <core/plan/deepspeed/stage_part.hpp>
#include <core/plan/partition/muon_groups.hpp>
#include <core/plan/partition/sub_groups.hpp>
#include <core/plan/write/rank_groups.hpp>
#include <core/plan/write/state_slots.hpp>

namespace shardmark {

/// The slots of one sub-group.
struct SubGroupSlots {
  int param = no_slot;  // no_slot if each shard of the sub-group lies by itself
  int grad = no_slot;
  StateSlots states;
  int momentum = no_slot;  // of Muon's matrices; that of other optimizers is among the states
  int flat = no_slot, grad32 = no_slot;  // of the step; with offloading grad32 lives for the run
  int swapped = -1;                      // its number at the swapper; -1 if it is in memory
};

/// What one segment hands to the next: the state of the coordinator, and where gathered parameters
/// lie.
struct GatherState {
  Coordinator coordinator;
  std::vector<Operand> where = {};  // by parameter: the whole parameter while it is gathered
  std::map<int, int> users = {};    // by slot of a summed buffer: parameters that lie in it
  std::set<int> secondary = {};     // parameters that have a secondary copy
  std::set<int> copied = {};        // with one rank: parameters that have a copy beside the shard
  Buffered buffered = {};           // parameters whose shards were read from files
  /// Equal for two states from which the same events follow.
  std::string key() const;
};

/// Owns the slots of the shards and of the gathered parameters, and writes the events that gather,
/// drop and convert them.
class ShardedParams : public FetchActions, private StagePart {
 public:
  ShardedParams(StageContext& context, const SubGroups& groups);

  OptimizerSwapper& swapper() { return swapper_; }
  const SubGroups& groups() const { return groups_; }
  std::size_t group_count() const { return slots_.size(); }
  SubGroupSlots& slots(std::size_t g) { return slots_[g]; }
  const SubGroupSlots& slots(std::size_t g) const { return slots_[g]; }
  SubGroupSlots& slots_of(int id) { return slots_[groups_.group_of(id)]; }
  GatherState& state() { return state_; }
  const GatherState& state() const { return state_; }
  std::int64_t shard(int id) const { return groups_.shard(id); }
  /// The ranks that divide a parameter, and this rank's place among them.
  int ranks(int id) const { return p_.mesh.ranks_of(c_.param(id).holders); }
  int place(int id) const { return p_.mesh.place_in(c_.param(id).holders); }
  /// Where this rank's shard begins in the parameter.
  std::int64_t first(int id) const { return shard(id) * place(id); }
  /// Elements of this rank's shard that are not padding.
  std::int64_t real(int id) const;
  /// The end of the names of a sub-group's slots, if there are several sub-groups.
  std::string suffix(std::size_t g) const {
    return slots_.size() > 1 ? "." + std::to_string(g) : "";
  }

  /// Whether the shards are on the host, or pass through it.
  bool on_host() const { return c_.deck.zero.offload_param.enabled; }
  /// Whether a sub-group's optimizer states are in files, and pass through the host.
  bool swaps(std::size_t g) const { return slots_[g].swapped >= 0; }
  /// Whether Muon updates a sub-group; AdamW updates the others then.
  bool has_matrices(std::size_t g) const {
    return shardmark::has_matrices(p_.model, groups_.groups()[g].params);
  }
  Optimizer optimizer_of(std::size_t g) const { return c_.optimizer_of(has_matrices(g)); }
  /// Whether the host updates a sub-group.
  bool updated_on_host(std::size_t g) const;

  /// Declares the slots of a sub-group's states; its shards in memory are then alive and zero.
  void declare_group(std::size_t g);
  /// Declares the shards of frozen parameters, each by itself; they are then alive and zero.
  void declare_frozen();
  /// Start-up, after all sub-groups: acquires what parameters in files pass through.
  void begin_files();
  /// Makes a parameter whole, broadcasts it and keeps this rank's shard. `dropped`: as after a use.
  void build(int id, bool dropped);
  /// Makes a sub-group's master from its shards, or the shards from the master, across tiers where
  /// they differ.
  void master_from_param(std::size_t g, Operand master);
  void param_from_master(std::size_t g, Operand master);
  /// Copies a parameter up from the host without a gather, if one rank has all of it.
  void bring_up(int id);
  /// Gathers one parameter from its shards into a buffer of its own, or drops it.
  void gather_alone(int id) { gather_alone(id, primary_[c_.param(id).holders]); }
  void drop(int id);
  /// With one rank: gathers a parameter although its shard is all of it, and keeps that copy.
  void copy_whole(int id);
  /// Records which parts of the parameters secondary copies hold at start-up.
  void note_copies();
  /// The end of a step: secondary copies no longer hold the values of the parameters.
  void drop_secondary();
  /// Where a gathered parameter lies now.
  Operand place_of(int id) const { return state_.where[static_cast<std::size_t>(id)]; }

 private:
  void fetch(const std::vector<int>& list) override;
  void arrive(const std::vector<int>& list) override;
  void release(int id) override;
  bool has_secondary(int id) const override { return state_.secondary.contains(id); }
  bool on_disk(int id) const override {
    return param_swapper_.is_file(id) && !state_.buffered.contains(id);
  }
  int room_to_read() const override {
    return param_swapper_.active() ? param_swapper_.free_buffers(state_.buffered) : 0;
  }
  void read_ahead(const std::vector<int>& list) override;
  void compare_lists(std::int64_t count) override;

  // Ranks that share a copy of the parameters, and which of them this one is.
  struct Sharers {
    int group = 0, ranks = 1, rank = 0;
  };
  const Sharers& sharers(int id) const {
    return has_secondary(id) ? secondary_ : primary_[c_.param(id).holders];
  }
  std::int64_t whole(int id) const { return shard(id) * ranks(id); }
  std::int64_t share(int id, const Sharers& of) const { return whole(id) / of.ranks; }
  /// This rank's shard. If it lies in a file, it must have been read.
  Operand own_shard(int id, bool reads, bool writes) const;
  Operand own_share(int id, const Sharers& of) const;
  bool by_sum(int id) const {
    return c_.knobs.use_all_reduce_for_fetch_params && !has_secondary(id) && !quantizes();
  }
  bool quantizes() const { return c_.knobs.quantized_weights; }
  void gather_quantized(int id, const Sharers& of);
  void gather_quantized(int flat, const std::vector<int>& list, const Sharers& of);
  template<class Fill>
  void settle(int id, Fill fill);
  int secondary_slot(int id);
  void keep_secondary(int id);
  void gather_alone(int id, const Sharers& of);
  int gathered_slot(int id);
  void shard_into(Operand place, int id);
  void declare_shards(const SubGroup& group);
  void declare_states(std::size_t g);
  void place_states(std::size_t g);
  void find_flat_groups();
  void convert_between(Operand from, Operand to, const std::string& what);
  void convert_across(Operand from, Operand to, const std::string& what);
  Operand part_of(Operand master, int id) const;
  std::vector<std::vector<int>> by_holders(const std::vector<int>& list) const;
  void gather_list(const std::vector<int>& list);
  void arrive_list(const std::vector<int>& list);
  std::vector<std::vector<int>> by_type(const std::vector<int>& list) const;
  bool lowers(int id) const { return c_.gathered_as(id) != c_.precision.model; }
  void gather_lowered(int id, const Sharers& of);
  void restore_lowered(int id);
  int lowered_slot(int id);
  int lowered_share(int id, const Sharers& of);
  int flat_slot(const std::vector<int>& list);
  int passing_slot(const std::string& name, Dtype dtype, std::int64_t elems);
  void fetch_together(const std::vector<int>& list);
  void arrive_together(const std::vector<int>& list);
  void join_shares(int slot, std::int64_t at, const std::vector<int>& list, const Sharers& of);
  void fetch_by_sum(const std::vector<int>& list);

  OptimizerSwapper swapper_;
  const SubGroups& groups_;
  std::vector<SubGroupSlots> slots_;  // by sub-group
  GatherState state_;                 // at the place where the plan is being written
  EnumArray<Holders, Sharers> primary_;
  Sharers secondary_;  // its group is no_group if there are no secondary copies
  std::vector<int> gathered_ = c_.no_slots();         // by parameter
  std::vector<int> secondary_slots_ = c_.no_slots();  // by parameter
  ParamSwapper param_swapper_;
  QuantizedGather quantized_;
  std::map<std::string, int> on_way_;  // buffers that parameters pass on their way to int8
  std::vector<bool> flat_;             // by sub-group: its shards lie in one buffer
  std::vector<int> rests_;             // parts of those buffers that no sub-group fits into
  std::vector<int> own_slots_ = c_.no_slots();  // by parameter: a shard that lies by itself
  std::map<std::string, int> transit_of_;       // on the host: buffers for a change of type
  std::map<std::vector<int>, int> flat_of_;     // buffers of joint gathers, by their parameters
  int traces_ = 0;                              // numbers the lists that ranks compare
};

}  // namespace shardmark
