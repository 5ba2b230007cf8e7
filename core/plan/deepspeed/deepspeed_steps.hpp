// SPDX-License-Identifier: Apache-2.0
// What the steps of all DeepSpeed stages share: the look for overflows, the norm and clipping
// between the boundary and the update, and what an update or a skipped step releases. A stage adds
// its states, its gradients and how those are reduced.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <core/plan/deepspeed/muon.hpp>
#include <core/plan/write/step_writer.hpp>

namespace shardmark {

/// The walk of a DeepSpeed stage, with the parts that every stage has.
class DeepSpeedSteps : public StepSchedule {
 public:
  DeepSpeedSteps(Program& program, const Deck& deck, const Profile& profile)
      : c_(program, deck, profile) {}

  ScheduleContext& context() override { return c_; }
  bool may_skip() const override { return looks_for_overflow() || skips_by_norm(); }
  /// Whether a flag says before the step if gradients overflowed.
  virtual bool looks_for_overflow() const { return c_.precision.check_overflow; }
  bool reduces_in_step() const override { return c_.stage() < 3 && !c_.knobs.managed_accumulation; }
  void begin_backward(const MicroBatch& micro) override;
  void end_segment() override { collectives_.end_segment(); }
  void boundary() override;
  void update() override;
  void skip() override;

 protected:
  /// Whether steps are skipped because their norm is not finite, without a flag: torch_autocast in
  /// fp16 scales the loss, but parameters are fp32. Muon's updates come before the norm.
  bool skips_by_norm() const {
    return c_.autocasts() && c_.precision.autocast.dtype == Dtype::fp16 &&
           !is_muon(c_.optimizer()) && (c_.stage() == 3 || c_.knobs.compute_grad_norm);
  }
  /// The sets of gradients whose sums of squares are taken apart, and those of a set that this rank
  /// has or, if `counted`, that it counts in the norm: other ranks count what they have too.
  virtual int gradient_sets() const = 0;
  virtual std::vector<Operand> gradients(int set, bool counted) const = 0;
  std::vector<Operand> all_gradients() const;

  /// Whether the overflow flag is set as gradients go to the host.
  virtual bool flags_gradually() const { return false; }
  /// Sets the overflow flag; called if a flag decides whether a step is skipped.
  virtual void look_for_overflow();

  /// The number of sums of squares behind the norm.
  virtual int sums() const { return gradient_sets(); }
  /// Adds up a sum over ranks that have different parts of it.
  virtual void reduce_sum(int /*sum*/) {}
  /// For each sum a parameter, if some sums are over Muon's updates (see StepScalars::clip).
  virtual std::vector<int> params_of_sums() const { return {}; }
  /// Whether the coefficient that the host computes is needed on the device, too.
  virtual bool clips_on_both() const { return false; }

  /// The update of this rank's states, and the gather of what all ranks have updated.
  virtual void update_states() = 0;
  virtual void gather_params() {}
  /// The end of a skipped step, before its scalars are released.
  virtual void drop_gradients() = 0;

  /// Makes Muon's updates whose moment has come.
  void make_muon_updates(MuonMoment now) {
    if (muon_) muon_->make_updates(now, is_special());
  }
  /// Converts a group's flat gradient, which is alive, into the master's type if it has another
  /// one. Returns the slot that is then alive: `grad`, or `converted`.
  int in_master_type(int grad, int& converted, const std::string& suffix);

  StageContext c_;
  PlanWriter& w_ = c_.writer;
  Collectives& collectives_ = c_.collectives;
  ModelGradients& grads_ = c_.grads;
  StepScalars& scalars_ = c_.scalars;
  std::unique_ptr<Muon> muon_;  // null if another optimizer updates all parameters

 private:
  void take_norm();
  void release_scalars();
};

}  // namespace shardmark
