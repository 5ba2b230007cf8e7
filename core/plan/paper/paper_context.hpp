// SPDX-License-Identifier: Apache-2.0
// What the parts of the schedule `paper` share: the program that is being written, the writers, the
// groups of ranks and the slots: which exist at a stage, and how large they are.
#pragma once

#include <span>
#include <vector>

#include <core/plan/write/rank_groups.hpp>
#include <core/plan/write/schedule_part.hpp>
#include <core/plan/write/staged_collectives.hpp>
#include <core/plan/write/state_slots.hpp>

namespace shardmark {

inline constexpr int no_unit = -1;

/// The slots of one unit; `no_slot` if the stage or the model has no such buffer.
struct UnitSlots {
  int param = no_slot, grad = no_slot;
  StateSlots states;
  int gathered = no_slot;  // stage 3: the unit's full parameters
  int bucket = no_slot;    // the unit's full gradient of one micro-batch; at stages 0 and 1 only
                           // if `grad`, the sum over micro-batches, has another type
  int part = no_slot;      // stages 2, 3: this rank's reduced share before it is accumulated
};

/// The slots of all units, and those that exist once.
struct PaperSlots {
  std::vector<UnitSlots> units;
  int sum = no_slot, clip = no_slot;  // sum of squares; norm and coefficient
  int overflow = no_slot;             // the flag, if overflows are looked for
};

/// The program that is being written, its writers and its slots.
struct PaperContext : ScheduleContext {
  PaperContext(Program& p, const Deck& deck, const Profile& machine);

  int stage() const { return program.stage; }
  int units() const { return static_cast<int>(program.model.units.size()); }
  const Unit& unit(int u) const { return program.model.units[u]; }
  const UnitSlots& slots_of(int u) const { return slots.units[u]; }
  std::vector<int> params_of(int u) const;
  /// Whether parameters have 16 bits, so that their master is apart from them.
  bool has_master() const { return program.precision.model != Dtype::fp32; }
  /// Whether micro-batches add up in another type than that of the gradients.
  bool separate_accum() const { return program.precision.grad_accum != program.precision.model; }
  /// Whether this rank shares its states with others.
  bool shares() const { return stage() > 0 && groups.shard != no_group; }

  /// This rank's own part of a buffer that holds the whole unit.
  Operand own(int slot, int u, bool reads, bool writes) const {
    return {slot, writes, reads, program.partition.offset(u, program.partition_rank()),
            program.partition.units[u].shard};
  }
  /// A parameter's place in its unit's flat buffer `slot`.
  Operand tensor(int slot, int param, bool reads, bool writes) const;
  /// A whole parameter, wherever the stage keeps it.
  Operand full_param(int id) const;
  Event& collective(Op op, Reduction reduction, Operand send, Operand receive, int u,
                    std::span<const int> params, int group);

  const Optimizer optimizer;
  const ShardGroups groups;
  StagedCollectives collectives;
  const PaperSlots slots;
};

using PaperPart = SchedulePart<PaperContext>;

}  // namespace shardmark
