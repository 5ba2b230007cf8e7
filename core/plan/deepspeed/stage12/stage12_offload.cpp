// SPDX-License-Identifier: Apache-2.0
// Gradients of DeepSpeed's stages 1 and 2 if the optimizer is on the host. For each parameter that
// touches this rank's partition the owned slice is copied to the host in fp32, once per step. Stage
// 2 with several micro-batches keeps whole gradients on the host in between: each micro-batch, the
// last one included, fetches the sum, adds to it, and stores it again. Gradients that add up in a
// partition of a type of their own stay on the device until then.
//
// Source: DeepSpeed 0.19's stage_1_and_2.py, async_accumulate_grad_in_cpu_via_gpu and
// async_inplace_copy_grad_to_fp32_buffer_from_gpu.
#include <algorithm>

#include <core/plan/deepspeed/stage12/stage12_gradients.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

void FlatBuckets::acquire_offload() {
  if (!c_.offloads()) return;
  std::int64_t largest = 0;
  for (const Param& p : p_.model.params) largest = std::max(largest, p.elems);
  // DeepSpeed has one on each side; nothing passes through the one on the host.
  scratch_ = w_.slot("offload_scratch", Category::staging, c_.precision.model, largest);
  host_scratch_ = c_.host_slot("offload_scratch.host", Category::staging, c_.precision.model,
                               largest, c_.pins_memory());
  for (int slot : {scratch_, host_scratch_}) acquire_zeroed(w_, slot);
  if (c_.stage() < 2 || p_.batch.accumulation < 2 || part_elems_ == 0) return;
  host_sum_ = c_.host_slot("grad_sum.host", Category::grad, c_.precision.model, part_elems_,
                           c_.pins_memory());
  acquire_zeroed(w_, host_sum_);
}

void FlatBuckets::accumulate_on_host(int id, Operand grad) {
  place(id);
  const Operand sum = w_.update(host_sum_, part_offset_[id], c_.elems(id));
  if (!micro_.first) {
    const Operand before = w_.read(scratch_, 0, c_.elems(id));
    w_.copy(sum, before);
    w_.accumulate(w_.update(grad), before);
  }
  w_.copy(grad, sum);
}

void FlatBuckets::keep_on_host(int id, Operand grad) {
  if (host_sum_ != no_slot) accumulate_on_host(id, grad);
  if (!micro_.last) return;
  const OwnedSlice own = states_.owned(id);
  send_to_host(id, w_.read(grad, own.first, own.elems));
}

void FlatBuckets::send_to_host(int id, Operand slice) {
  const OwnedSlice own = states_.owned(id);
  const auto g = static_cast<std::size_t>(states_.flat().group_of(id));
  scalars_.add_to_flag(slice);
  if (!states_.has_matrices(g) && c_.counts(id)) scalars_.add_to_sum(static_cast<int>(g), slice);
  offload_.send_down(
      id, slice,
      w_.write(states_.host_grad(g),
               states_.flat().offset_of(id) + own.first - states_.own_first(g), own.elems));
}

}  // namespace shardmark
