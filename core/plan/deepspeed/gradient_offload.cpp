// SPDX-License-Identifier: Apache-2.0
#include <core/plan/deepspeed/gradient_offload.hpp>

namespace shardmark {

Operand GradientOffload::as_fp32(int param, Operand grad) {
  if (w_[grad.slot].dtype == Dtype::fp32) return w_.read(grad);
  const int wide = c_.declare_once(fp32_[param], "fp32." + c_.name(param), Category::staging,
                                   Dtype::fp32, grad.elems);
  w_.acquire(wide);
  w_.convert(w_.write(wide), w_.read(grad));
  return w_.read(wide);
}

void GradientOffload::send_down(int param, Operand grad, Operand into) {
  const Operand wide = as_fp32(param, grad);
  if (wide.slot != grad.slot) keep_for_copy(wide.slot);
  w_.copy(wide, into);
}

void GradientOffload::release_copied() {
  for (int slot : copied_) w_.release(slot);
  copied_.clear();
}

}  // namespace shardmark
