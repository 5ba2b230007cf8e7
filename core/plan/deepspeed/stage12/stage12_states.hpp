// SPDX-License-Identifier: Apache-2.0
// Model states of DeepSpeed's stages 1 and 2, for both of its optimizer classes: each parameter
// group is a flat buffer that every rank holds whole, and each rank has a partition of its fp32
// states.
#pragma once

#include <string>
#include <vector>

#include <core/plan/deepspeed/frozen_params.hpp>
#include <core/plan/deepspeed/stage_part.hpp>
#include <core/plan/partition/flat_groups.hpp>
#include <core/plan/partition/muon_groups.hpp>
#include <core/plan/write/state_slots.hpp>

namespace shardmark {

/// Declares these states, and updates and gathers the parameters.
class FlatStates : private StagePart {
 public:
  FlatStates(StageContext& context, const FlatGroups& groups)
      : StagePart(context), flat_(groups), slots_(groups.groups().size()) {}

  const FlatGroups& flat() const { return flat_; }
  const std::vector<FlatGroup>& groups() const { return flat_.groups(); }
  /// The end of the names of a group's slots, if there are several groups.
  std::string suffix(std::size_t g) const {
    return groups().size() > 1 ? "." + std::to_string(g) : "";
  }
  /// The first element of group `g` that this rank owns.
  std::int64_t own_first(std::size_t g) const {
    return groups()[g].partition * p_.mesh.place_in(groups()[g].holders);
  }
  /// Whether Muon updates group `g`; AdamW updates the other groups then.
  bool has_matrices(std::size_t g) const {
    return shardmark::has_matrices(p_.model, groups()[g].params);
  }
  Optimizer optimizer_of(std::size_t g) const { return c_.optimizer_of(has_matrices(g)); }
  OwnedSlice owned(int param) const {
    return flat_.owned(param, p_.mesh.place_in(c_.param(param).holders));
  }
  bool owns(int param) const { return c_.param(param).updated() && owned(param).elems > 0; }
  /// The place of a parameter in its group's flat buffer, or by itself if it is frozen.
  Operand param(int id) const {
    if (!c_.param(id).updated()) return frozen_.part(c_, id);
    return w_.read(slots_[flat_.group_of(id)].param, flat_.offset_of(id), c_.elems(id));
  }
  /// On the host: the slot of a group's gradient partition.
  int host_grad(std::size_t g) const { return slots_[g].grad; }

  /// Start-up: makes and broadcasts the parameters, and makes the fp32 states from them.
  void init();
  /// Updates this rank's partition from its fp32 gradients, and with it the parameters. Muon's
  /// updates may be made of gradients that were clipped.
  void update_partition(std::size_t g, Operand grad, bool clipped = false);
  /// Gathers the updated partitions of all ranks, group by group.
  void gather_params();

 private:
  struct GroupSlots {
    int param = no_slot;
    StateSlots states;
    int staging = no_slot, grad = no_slot;  // on the host: parameters on their way up, gradients
  };

  const FlatGroups& flat_;
  std::vector<GroupSlots> slots_;  // by group
  FrozenParams frozen_;
};

}  // namespace shardmark
