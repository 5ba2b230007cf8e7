// SPDX-License-Identifier: Apache-2.0
// Model states of DeepSpeed's stages 1 and 2, for both of its optimizer classes: each parameter
// group a flat buffer that every rank has whole, and a partition of fp32 states a rank.
#pragma once

#include <core/plan/deepspeed/deepspeed_writer.hpp>
#include <core/plan/partition/flat_groups.hpp>

namespace shardmark {

class FlatStates : public RepeatedStepWriter {
 public:
  FlatStates(Program& program, const Deck& deck, const Profile& profile, const FlatGroups& groups)
      : RepeatedStepWriter(program, deck, profile),
        flat_(groups),
        states_(groups.groups().size()) {}

 protected:
  struct GroupSlots {
    int param = no_slot, master = no_slot, momentum = no_slot, variance = no_slot;
    int staging = no_slot, grad = no_slot;  // of the host: parameters on their way up, gradients
  };

  const std::vector<FlatGroup>& groups() const { return flat_.groups(); }
  std::string suffix(std::size_t g) const {
    return groups().size() > 1 ? "." + std::to_string(g) : "";
  }
  /// First element of group `g` that this rank owns.
  std::int64_t own_first(std::size_t g) const { return groups()[g].partition * p_.rank; }
  std::vector<Operand> module_params(int module) const;

  /// Start-up: parameters made and broadcast, fp32 states made from them.
  void init_states();
  /// Adam on this rank's partition, from fp32 gradients, and back into the parameters.
  void update_partition(std::size_t g, Operand grad);
  /// The updated partitions of all ranks, group by group.
  void gather_params();

  const FlatGroups& flat_;
  std::vector<GroupSlots> states_;
};

}  // namespace shardmark
