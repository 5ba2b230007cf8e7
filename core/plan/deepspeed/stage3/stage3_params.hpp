// SPDX-License-Identifier: Apache-2.0
// Parameters of DeepSpeed's stage 3: shards in sub-groups, and whole ones while they are gathered.
// Does what the coordinator decides.
//
// With zero_hpz_partition_size H (ZeRO++'s hpZ) whoever drops a parameter keeps a secondary copy,
// cut over the H ranks of its block, and gathers it from there until the step is done; then the
// copies go. A skipped step keeps them, and start-up, which drops each parameter once, leaves them.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <core/plan/deepspeed/deepspeed_writer.hpp>
#include <core/plan/deepspeed/stage3/optimizer_swapper.hpp>
#include <core/plan/deepspeed/stage3/param_coordinator.hpp>
#include <core/plan/deepspeed/stage3/param_swapper.hpp>
#include <core/plan/partition/sub_groups.hpp>
#include <core/plan/write/rank_groups.hpp>

namespace shardmark {

class ShardedParams : public DeepSpeedWriter, public FetchActions {
 public:
  ShardedParams(Program& program, const Deck& deck, const Profile& profile,
                const SubGroups& groups);

 protected:
  struct GroupSlots {
    int param = no_slot;  // no_slot: each of its shards lies by itself
    int grad = no_slot, master = no_slot, momentum = no_slot, variance = no_slot;
    int flat = no_slot, grad32 = no_slot;  // of the step; offload: grad32 is always there
    int swapped = -1;                      // its number at the swapper; -1: it is in memory
  };
  /// What one segment hands to the next: how the coordinator stands, where gathered parameters lie.
  struct Stand {
    Coordinator coordinator;
    std::vector<Operand> where;  // by parameter: whole, while it is gathered
    std::map<int, int> users;    // parameters that lie in a summed buffer
    std::set<int> secondary;     // parameters of which there is a secondary copy
    Buffered buffered;           // parameters whose shards were read from files
    EndState alive;
    std::string key() const;
  };
  int params() const { return static_cast<int>(p_.model.params.size()); }
  std::int64_t shard(int id) const { return groups_.shard(id); }
  std::int64_t whole(int id) const { return shard(id) * world(); }
  /// Of the names of a sub-group's slots, where there are several.
  std::string suffix(std::size_t g) const {
    return slots_.size() > 1 ? "." + std::to_string(g) : "";
  }
  /// This rank's shard; one of a file must have been read.
  Operand own_shard(int id, bool reads, bool writes) const;
  // Elements of this rank's shard that are not padding.
  std::int64_t real(int id) const {
    return std::clamp<std::int64_t>(elems(id) - shard(id) * p_.rank, 0, shard(id));
  }

  /// Whether the shards are on the host, or come through it.
  bool params_on_host() const { return deck_.zero.offload_param.enabled; }
  /// Whether a sub-group's optimizer states are in files, and pass through the host.
  bool swaps(std::size_t g) const { return slots_[g].swapped >= 0; }
  /// Whether the host updates a sub-group.
  bool on_host(std::size_t g) const {
    const auto n = static_cast<double>(slots_.size());
    return offloads() &&
           (swaps(g) ||
            static_cast<double>(g) >= std::floor((1.0 - deck_.zero.offload_optimizer.ratio) * n));
  }

  /// Slots of a sub-group's states; shards in memory are alive and zero then.
  void declare_group(std::size_t g);
  /// Start-up, after all groups: what parameters in files pass through.
  void begin_param_files();
  /// Makes a parameter whole, broadcasts it, keeps this rank's shard; `dropped`: as after a use.
  void build_param(int id, bool dropped);
  /// A sub-group's fp32 states made from its shards, and the way back, across tiers where it must.
  void master_from_param(std::size_t g, Operand master);
  void param_from_master(std::size_t g, Operand master);
  /// Without a gather, where one rank has all of it, but on the host.
  void bring_up(int id);
  /// Gathers one parameter of the world's shards straight into a buffer of its own, or drops it.
  void gather_alone(int id) { gather_alone(id, primary_); }
  void drop(int id);
  /// Says which parts of the parameters secondary copies hold at start-up.
  void note_copies();
  /// The step is done: secondary copies are no longer what the parameters are.
  void drop_secondary();
  /// Where a module's parameters lie now.
  std::vector<Operand> module_params(int module) const;

  const SubGroups& groups_;
  std::vector<GroupSlots> slots_;  // by sub-group
  OptimizerSwapper swapper_;
  Stand stand_;  // where the plan is being written

 private:
  void fetch(const std::vector<int>& list) override;
  void arrive(const std::vector<int>& list) override;
  void release(int id) override;
  bool has_secondary(int id) const override { return stand_.secondary.contains(id); }
  bool on_disk(int id) const override {
    return param_swapper_.is_file(id) && !stand_.buffered.contains(id);
  }
  int room_to_read() const override {
    return param_swapper_.active() ? param_swapper_.free_buffers(stand_.buffered) : 0;
  }
  void read_ahead(const std::vector<int>& list) override;
  void compare_lists(std::int64_t count) override;

  // Ranks that share a copy of the parameters, and which of them this one is.
  struct Sharers {
    int group = 0, ranks = 1, rank = 0;
  };
  const Sharers& sharers(int id) const { return has_secondary(id) ? secondary_ : primary_; }
  std::int64_t share(int id, const Sharers& of) const { return whole(id) / of.ranks; }
  Operand own_share(int id, const Sharers& of) const;
  bool by_sum(int id) const { return knobs_.use_all_reduce_for_fetch_params && !has_secondary(id); }
  int secondary_slot(int id);
  void keep_secondary(int id);
  void gather_alone(int id, const Sharers& of);
  int gathered_slot(int id);
  void shard_into(Operand place, int id);
  void declare_shards(const SubGroup& group);
  void find_flat_groups();
  void convert_between(Operand from, Operand to, const std::string& what);
  Operand part_of(Operand master, int id) const;
  void gather_list(const std::vector<int>& list);
  int flat_slot(const std::vector<int>& list);
  void fetch_together(const std::vector<int>& list);
  void fetch_by_sum(const std::vector<int>& list);

  const Sharers primary_;
  Sharers secondary_;                 // of no group: there are none
  std::vector<int> gathered_;         // by parameter
  std::vector<int> secondary_slots_;  // by parameter
  ParamSwapper param_swapper_;
  std::vector<bool> flat_;                   // by sub-group: its shards lie in one buffer
  std::vector<int> rests_;                   // of those buffers: what no sub-group fits into
  std::vector<int> own_slots_;               // by parameter: a shard that lies by itself
  std::map<std::string, int> transit_of_;    // of the host: what changes type on its way
  std::map<std::vector<int>, int> flat_of_;  // coalesced gathers by their parameters
  int traces_ = 0;                           // names of the lists that ranks compare
};

}  // namespace shardmark
