// SPDX-License-Identifier: Apache-2.0
// How reduced gradients reach the optimizer if that is on the host: in fp32, by copies that run
// beside backward. Buffers of copies live on until the compute lane has waited for them.
//
// Source: DeepSpeed 0.19's stage_1_and_2.py (copy_grads_in_partition) and stage3.py
// (partition_grads, complete_grad_norm_calculation_for_cpu_offload).
#pragma once

#include <vector>

#include <core/plan/deepspeed/deepspeed_context.hpp>

namespace shardmark {

/// Writes the copies of gradients to the host.
class GradientOffload : private DeepSpeedPart {
 public:
  explicit GradientOffload(DeepSpeedContext& context) : DeepSpeedPart(context) {}

  /// A parameter's gradient in fp32 on the device: itself, or a copy in `fp32_slot`, which is then
  /// alive.
  Operand as_fp32(int param, Operand grad);
  int fp32_slot(int param) const { return fp32_[param]; }
  /// Copies a parameter's gradient to fp32 on the host.
  void send_down(int param, Operand grad, Operand into);
  /// Keeps `slot` until `release_copied`, since a copy reads it.
  void keep_for_copy(int slot) { copied_.push_back(slot); }
  /// Releases what copies have read; the compute lane waits for the copies.
  void release_copied();

 private:
  std::vector<int> fp32_ = c_.no_slots();  // by parameter
  std::vector<int> copied_;                // slots that copies read
};

}  // namespace shardmark
