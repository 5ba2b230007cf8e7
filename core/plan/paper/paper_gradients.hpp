// SPDX-License-Identifier: Apache-2.0
// The schedule `paper`: gradients from a module's backward to this rank's share of the sum.
//
// Gradients are made and reduced in the model's type; data_types.grad_accum_dtype is the type in
// which micro-batches add up:
//   stages 0, 1   the same type: backward adds in place. Another (stage 1): each one's gradient is
//                 made in a bucket and added to a sum, which goes through the bucket to its
//                 reduction.
//   stages 2, 3   each one's gradient is made and reduced in a bucket; this rank's share is then
//                 added to what earlier ones left.
//
// Where states are cut in two levels (run.shard_size) a reduction is two: reduce_scatter in the
// shard group, then all_reduce of the share among replicas, each an average; nothing but the second
// where a rank holds all by itself. As FSDP's HYBRID_SHARD does.
#pragma once

#include <set>
#include <span>
#include <vector>

#include <core/plan/paper/paper_slots.hpp>
#include <core/plan/write/compute_writer.hpp>
#include <core/plan/write/plan_writer.hpp>

namespace shardmark {

inline constexpr int no_unit = -1;

class PaperGradients {
 public:
  PaperGradients(Program& program, const Deck& deck, const Profile& profile);

 protected:
  int stage() const { return p_.stage; }
  int units() const { return static_cast<int>(p_.model.units.size()); }
  const Unit& unit(int u) const { return p_.model.units[u]; }
  /// 16-bit parameters: the master is apart from them.
  bool half() const { return p_.precision.model != Dtype::fp32; }
  /// Micro-batches add up in another type than the gradients'.
  bool separate_accum() const { return p_.precision.grad_accum != p_.precision.model; }
  std::vector<int> params_of(int u) const;

  /// This rank's own part of a buffer that holds the whole unit.
  Operand own(int slot, int u, bool reads, bool writes) const {
    return {slot, writes, reads, p_.partition.offset(u, p_.rank), p_.partition.units[u].shard};
  }
  Event& collective(Op op, Reduction reduction, Operand send, Operand receive, int u,
                    std::span<const int> params, int group);
  /// Whether this rank shares its states with others.
  bool shares() const { return stage() > 0 && groups_.shard != no_group; }
  /// A module's parameters, whole, wherever the stage keeps them.
  std::vector<Operand> full_params(int module) const;

  /// `first`, `last`: of a step's micro-batches, the one that is being written.
  void begin_gradients(bool first, bool last);
  void begin_backward();
  void backward(int module);
  /// Starts the reduction of the unit whose backward is just done, then goes on with the ones
  /// before it: at most one unit's whole gradient, and one's share, is in flight while the next one
  /// is computed.
  void reduce_gradient(int u);
  void retire_reductions();
  /// What is applied of a unit's reduced gradient.
  Operand owned_grad(int u) const;

  Program& p_;
  PlanWriter w_;
  ComputeWriter compute_;
  const Profile& profile_;
  const ShardGroups groups_;
  const PaperSlots slots_;

 private:
  Operand tensor(int slot, int param, bool reads, bool writes) const;
  int full_grad(int u) const;
  void acquire_full_grad(int u);
  void add_micro_batch(int u);
  Operand reduced(int u) const;
  void advance();
  void retire(int u);
  void add(Operand into, Operand from, int u);
  // Stages 2, 3: this rank's share of a reduced gradient is not the first, or not of grad's type.
  bool shares_in_part() const { return !first_ || separate_accum(); }

  std::set<int> made_;  // parameters whose gradient this backward has begun
  bool first_ = true, last_ = true;
  // Units whose reduction has started and is not retired: in its first level, and among replicas.
  int in_flight_ = no_unit, among_replicas_ = no_unit;
};

}  // namespace shardmark
