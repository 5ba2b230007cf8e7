// SPDX-License-Identifier: Apache-2.0
// Gradients of DeepSpeed's stages 1 and 2 where the optimizer is on the host. Of a parameter that
// touches this rank's partition the owned slice goes down in fp32, once a step. Stage 2 with
// several micro-batches keeps whole gradients on the host in between: each fetches the sum up, adds
// to it and stores it again, the last one too.
//
// Source: DeepSpeed 0.19's stage_1_and_2.py, async_accumulate_grad_in_cpu_via_gpu and
// async_inplace_copy_grad_to_fp32_buffer_from_gpu.
#include <algorithm>

#include <core/plan/deepspeed/stage12/stage12_gradients.hpp>

namespace shardmark {

void FlatGradients::acquire_offload() {
  if (!offloads()) return;
  std::int64_t largest = 0;
  for (const Param& p : p_.model.params) largest = std::max(largest, p.elems);
  // DeepSpeed has one of either side; nothing goes through the host's.
  scratch_ = w_.slot("offload_scratch", Category::staging, precision_.model, largest);
  host_scratch_ =
      host_slot("offload_scratch.host", Category::staging, precision_.model, largest, pins());
  for (int slot : {scratch_, host_scratch_}) acquire_zeroed(w_, slot);
  if (stage() < 2 || p_.batch.accumulation < 2) return;
  host_sum_ = host_slot("grad_sum.host", Category::grad, precision_.model, part_elems_, pins());
  acquire_zeroed(w_, host_sum_);
}

void FlatGradients::accumulate_on_host(int id, Operand grad) {
  place(id);
  const Operand sum = update_part(host_sum_, part_offset_[id], elems(id));
  if (!first_) {
    const Operand before = update_part(scratch_, 0, elems(id));
    w_.copy(sum, before);
    Operand into = grad, from = before;
    into.reads = into.writes = true;
    from.writes = false;
    w_.compute(Kernel::accumulate, {into, from});
  }
  w_.copy(grad, sum);
}

void FlatGradients::keep_on_host(int id, Operand grad) {
  if (host_sum_ != no_slot) accumulate_on_host(id, grad);
  if (!last_) return;
  const OwnedSlice own = flat_.owned(id, p_.rank);
  const auto g = static_cast<std::size_t>(flat_.group_of(id));
  const Operand slice = read_part(grad.slot, grad.offset + own.first, own.elems);
  look_at(static_cast<int>(g), slice);
  send_down(id, slice,
            write_part(states_[g].grad, flat_.offset_of(id) + own.first - own_first(g), own.elems));
}

}  // namespace shardmark
