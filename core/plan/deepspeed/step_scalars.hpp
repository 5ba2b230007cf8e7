// SPDX-License-Identifier: Apache-2.0
// The scalars of a DeepSpeed step: the sums of squares behind the gradient norm, the clip
// coefficient and the overflow flag, on the device and, if the optimizer is there, on the host.
#pragma once

#include <optional>
#include <vector>

#include <core/plan/deepspeed/deepspeed_context.hpp>
#include <core/plan/write/state_slots.hpp>

namespace shardmark {

/// Declares these scalars and writes the events that make and use them.
class StepScalars : private DeepSpeedPart {
 public:
  explicit StepScalars(DeepSpeedContext& context) : DeepSpeedPart(context) {}

  // The sums and the clip coefficient.
  void acquire(int sums);
  /// Releases those that are alive, on the host too.
  void release();
  /// Sum of squares number `i` over this rank's `grads`.
  void sum_of_squares(int i, const std::vector<Operand>& grads);
  /// Adds up what the ranks of the norm's group counted, where the other ranks have the same sum.
  void add_up_parts(int i, Dtype wire) {
    if (c_.divided()) add_up(i, wire, {c_.program.norm_group()});
  }
  /// Adds up sum number `i` in the type `wire` over several groups, one after another. A group of
  /// -1 is skipped.
  void add_up(int i, Dtype wire, std::initializer_list<int> groups);
  /// Averages sum number `i` over a group whose ranks all have it already, once it is added up over
  /// the group `before`, if there is one.
  void average_sum(int i, Dtype wire, int group, int before = -1);
  /// `updates`: one parameter of each sum's group, if some sums are over Muon's updates and lack
  /// the loss scale.
  void clip(int sums, const std::vector<int>& updates = {});
  /// What `clip` needs to know of `sums` groups.
  template<class Groups>
  std::vector<int> updates_of(const Groups& groups, int sums) const {
    std::vector<int> firsts;
    if (c_.program.updates_lack_scale)
      for (int g = 0; g < sums; ++g)
        firsts.push_back(groups[static_cast<std::size_t>(g)].params.front());
    return firsts;
  }
  /// Copies the sums to the host, which clips; `also_device` for sub-groups that stay there.
  void clip_on_host(int sums, bool also_device);
  /// Writes the update of `params` by `optimizer`, which need not be the optimizer of the deck,
  /// with the coefficient of the tier where the master lies.
  void update_by(Optimizer optimizer, const UpdatePlaces& places, const std::vector<int>& params,
                 std::optional<Operand> rounded = {});

  /// Multiplies a gradient (u) by the coefficient, before Muon makes its update of the gradient.
  void clip_gradient(Operand grad);
  /// Writes Muon's update from such an update.
  void update_by_clipped(const UpdatePlaces& places, const std::vector<int>& params,
                         std::optional<Operand> rounded = {}) {
    write_update(w_, c_.optimizer(), places, no_slot, params, rounded);
  }

  // The overflow flag.
  int flag() const { return flag_; }
  void acquire_flag();
  void reduce_flag();
  /// Reduces the flag over the norm's groups alone, where the other ranks have the same.
  void share_flag();
  /// Sets the flag by `grads`, and reduces it if asked to.
  void set_flag(const std::vector<Operand>& grads, bool reduced);

  // Sums and flag that are updated gradient by gradient, as offloading does.
  /// Acquires `sums` sums and, if `flagged`, the flag, and clears them.
  void begin_gradually(int sums, bool flagged);
  /// Adds a gradient, or Muon's update, to sum number `sum`, if there is such a sum.
  void add_to_sum(int sum, Operand grad);
  /// Lets the flag tell whether a gradient has overflowed, if it is set gradually.
  void add_to_flag(Operand grad);

 private:
  void declare_sums(int sums);
  int declare_clip();
  void reduce(int slot, Reduction reduction, int group);
  template<class Reduce>
  void in_wire(int i, Dtype wire, const Reduce& reduce);
  std::vector<Operand> clip_operands(int clip, const std::vector<int>& slots, int sums,
                                     bool adds_to_all = false) const;

  std::vector<int> sums_, host_sums_;
  std::vector<int> sum_wires_;  // by sum: its copy in the type that is sent
  int flag_ = no_slot, clip_ = no_slot, host_clip_ = no_slot;
  bool flags_gradually_ = false;
};

}  // namespace shardmark
