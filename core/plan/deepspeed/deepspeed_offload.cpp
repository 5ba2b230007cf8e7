// SPDX-License-Identifier: Apache-2.0
// What DeepSpeed's stages do alike where the optimizer is on the host: the device sums squares and
// looks for overflows as gradients come, sends them down in fp32, and the host clips.
//
// Source: DeepSpeed 0.19's stage_1_and_2.py (copy_grads_in_partition) and stage3.py
// (partition_grads, complete_grad_norm_calculation_for_cpu_offload).
#include <core/plan/deepspeed/deepspeed_writer.hpp>

namespace shardmark {

void DeepSpeedWriter::begin_looking(int sums, bool flagged) {
  declare_sums(sums);
  for (int i = 0; i < sums; ++i) acquire_zeroed(w_, sums_[i]);
  looks_for_overflow_ = flagged;
  if (!flagged) return;
  acquire_flag();
  w_.compute(Kernel::zero, {w_.write(flag_)});
}

void DeepSpeedWriter::look_at(int sum, Operand grad) {
  grad.reads = true, grad.writes = false;
  if (sum < static_cast<int>(sums_.size()))
    w_.compute(Kernel::grad_norm, {w_.update(sums_[sum]), grad});
  if (looks_for_overflow_) w_.compute(Kernel::overflow, {w_.update(flag_), grad});
}

Operand DeepSpeedWriter::as_fp32(int id, Operand grad) {
  grad.reads = true, grad.writes = false;
  if (w_[grad.slot].dtype == Dtype::fp32) return grad;
  if (fp32_.empty()) fp32_.assign(p_.model.params.size(), no_slot);
  const int wide =
      lazily(fp32_[id], "fp32." + name(id), Category::staging, Dtype::fp32, grad.elems);
  w_.acquire(wide);
  w_.compute(Kernel::convert, {w_.write(wide), grad});
  return w_.read(wide);
}

void DeepSpeedWriter::send_down(int id, Operand grad, Operand into) {
  const Operand wide = as_fp32(id, grad);
  if (wide.slot != grad.slot) in_transit(wide.slot);
  w_.copy(wide, into);
}

void DeepSpeedWriter::settle_copies() {
  for (int slot : transit_) w_.release(slot);
  transit_.clear();
}

void DeepSpeedWriter::clip_on_host(int sums, bool also_device) {
  if (host_clip_ == no_slot)
    host_clip_ = host_slot("clip.host", Category::workspace, Dtype::fp64, 2);
  w_.acquire(host_clip_);
  std::vector<Operand> operands{w_.write(host_clip_)};
  for (int i = 0; i < sums; ++i) {
    if (static_cast<int>(host_sums_.size()) == i) {
      const Slot& sum = w_[sums_[i]];
      host_sums_.push_back(host_slot(sum.name + ".host", sum.category, sum.dtype, sum.elems));
    }
    w_.acquire(host_sums_[i]);
    w_.copy(w_.read(sums_[i]), w_.write(host_sums_[i]));
    operands.push_back(i == 0 && sums > 1 ? w_.update(host_sums_[i]) : w_.read(host_sums_[i]));
  }
  w_.compute(Kernel::clip, operands);
  if (!also_device) return;
  w_.acquire(lazily(clip_, "clip", Category::workspace, Dtype::fp64, 2));
  w_.copy(w_.read(host_clip_), w_.write(clip_));
}

}  // namespace shardmark
