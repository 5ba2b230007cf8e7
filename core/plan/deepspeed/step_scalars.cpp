// SPDX-License-Identifier: Apache-2.0
#include <core/exact_sum.hpp>
#include <core/plan/deepspeed/step_scalars.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

void StepScalars::declare_sums(int sums) {
  const bool limbs = c_.ordered();
  for (int i = static_cast<int>(sums_.size()); i < sums; ++i) {
    const std::string number = sums > 1 ? "." + std::to_string(i) : "";
    sums_.push_back(w_.slot("norm_sum" + number, Category::workspace,
                            limbs ? Dtype::int64 : Dtype::fp64, limbs ? exact_sum_limbs : 1));
    sum_wires_.push_back(no_slot);
  }
}

int StepScalars::declare_clip() {
  return c_.declare_once(clip_, "clip", Category::workspace, Dtype::fp64, 2);
}

void StepScalars::acquire(int sums) {
  declare_sums(sums);
  for (int i = 0; i < sums; ++i) w_.acquire(sums_[i]);
  w_.acquire(declare_clip());
}

void StepScalars::release() {
  for (const std::vector<int>& sums : {sums_, host_sums_})
    for (int s : sums) w_.drop(s);
  w_.drop({clip_, host_clip_});
}

void StepScalars::set_flag(const std::vector<Operand>& grads, bool reduced) {
  acquire_flag();
  std::vector<Operand> operands{w_.write(flag_)};
  operands.insert(operands.end(), grads.begin(), grads.end());
  w_.compute(Kernel::overflow, operands);
  if (reduced)
    reduce_flag();
  else
    share_flag();
}

void StepScalars::acquire_flag() {
  w_.acquire(c_.declare_once(flag_, "overflow", Category::workspace, Dtype::uint8, 1));
}

void StepScalars::reduce_flag() {
  reduce(flag_, Reduction::max, 0);
  share_flag();
}

void StepScalars::share_flag() {
  for (const int group : c_.program.norm_groups) reduce(flag_, Reduction::max, group);
}

void StepScalars::reduce(int slot, Reduction reduction, int group) {
  w_.collective(Op::all_reduce, reduction, w_.read(slot), w_.write(slot), {}, group);
}

void StepScalars::sum_of_squares(int i, const std::vector<Operand>& grads) {
  std::vector<Operand> operands{w_.write(sums_[i])};
  operands.insert(operands.end(), grads.begin(), grads.end());
  w_.compute(grads.empty() ? Kernel::zero : Kernel::grad_norm, operands);
}

void StepScalars::add_up(int i, Dtype wire, std::initializer_list<int> groups) {
  in_wire(i, wire, [&](int slot) {
    for (const int group : groups)
      if (group >= 0) reduce(slot, Reduction::sum, group);
  });
}

void StepScalars::average_sum(int i, Dtype wire, int group, int before) {
  const int ranks = group == of_partition ? c_.world() : c_.program.size_of(group);
  in_wire(i, wire, [&](int slot) {
    if (before >= 0) reduce(slot, Reduction::sum, before);
    // An exact sum must keep its bits.
    reduce(slot, c_.ordered() ? Reduction::max : Reduction::sum, group);
  });
  if (!c_.ordered() && ranks > 1)
    w_.compute(Kernel::scale, {w_.update(sums_[i])}).divisor = static_cast<double>(ranks);
}

// Exact sums are sent as they are.
template<class Reduce>
void StepScalars::in_wire(int i, Dtype wire, const Reduce& reduce) {
  const int sum = sums_[i];
  if (c_.ordered() || wire == w_[sum].dtype) return reduce(sum);
  const int narrow =
      c_.declare_once(sum_wires_[i], w_[sum].name + ".wire", Category::workspace, wire, 1);
  w_.acquire(narrow);
  w_.convert(w_.write(narrow), w_.read(sum));
  reduce(narrow);
  w_.convert(w_.write(sum), w_.read(narrow));
  w_.release(narrow);
}

// The sums after the first one, or the first of its kind, are added to it.
std::vector<Operand> StepScalars::clip_operands(int clip, const std::vector<int>& slots, int sums,
                                                bool adds_to_all) const {
  std::vector<Operand> operands{w_.write(clip)};
  for (int i = 0; i < sums; ++i)
    operands.push_back((i == 0 && sums > 1) || adds_to_all ? w_.update(slots[i])
                                                           : w_.read(slots[i]));
  return operands;
}

void StepScalars::clip(int sums, const std::vector<int>& updates) {
  w_.compute(Kernel::clip, clip_operands(clip_, sums_, sums, !updates.empty()), updates);
}

void StepScalars::clip_on_host(int sums, bool also_device) {
  if (host_clip_ == no_slot)
    host_clip_ = c_.host_slot("clip.host", Category::workspace, Dtype::fp64, 2);
  w_.acquire(host_clip_);
  for (int i = 0; i < sums; ++i) {
    if (static_cast<int>(host_sums_.size()) == i) {
      const Slot sum = w_[sums_[i]];
      host_sums_.push_back(c_.host_slot(sum.name + ".host", sum.category, sum.dtype, sum.elems));
    }
    w_.acquire(host_sums_[i]);
    w_.copy(w_.read(sums_[i]), w_.write(host_sums_[i]));
  }
  w_.compute(Kernel::clip, clip_operands(host_clip_, host_sums_, sums));
  if (!also_device) return;
  w_.acquire(declare_clip());
  w_.copy(w_.read(host_clip_), w_.write(clip_));
}

void StepScalars::update_by(Optimizer optimizer, const UpdatePlaces& places,
                            const std::vector<int>& params, std::optional<Operand> rounded) {
  const int clip = w_[places.master.slot].tier == Tier::host ? host_clip_ : clip_;
  write_update(w_, optimizer, places, clip, params, rounded);
}

void StepScalars::clip_gradient(Operand grad) {
  w_.compute(Kernel::clip_gradient, {grad, w_.read(clip_)});
}

void StepScalars::begin_gradually(int sums, bool flagged) {
  declare_sums(sums);
  for (int i = 0; i < sums; ++i) acquire_zeroed(w_, sums_[i]);
  flags_gradually_ = flagged;
  if (!flagged) return;
  acquire_flag();
  w_.compute(Kernel::zero, {w_.write(flag_)});
}

void StepScalars::add_to_sum(int sum, Operand grad) {
  if (sum < static_cast<int>(sums_.size()))
    w_.compute(Kernel::grad_norm, {w_.update(sums_[sum]), w_.read(grad)});
}

void StepScalars::add_to_flag(Operand grad) {
  if (flags_gradually_) w_.compute(Kernel::overflow, {w_.update(flag_), w_.read(grad)});
}

}  // namespace shardmark
