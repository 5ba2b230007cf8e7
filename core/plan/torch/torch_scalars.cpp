// SPDX-License-Identifier: Apache-2.0
#include <core/exact_sum.hpp>
#include <core/plan/torch/torch_scalars.hpp>
#include <core/plan/write/rank_groups.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {

TorchScalars::TorchScalars(TorchContext& context, Tier tier) : TorchPart(context), tier_(tier) {
  const bool limbs = c_.ordered();
  const Dtype dtype = limbs ? Dtype::int64 : Dtype::fp64;
  const std::int64_t elems = limbs ? exact_sum_limbs : 1;
  sum_ = w_.slot("norm_sum", Category::workspace, dtype, elems, tier_);
  clip_ = w_.slot("clip", Category::workspace, Dtype::fp64, 2, tier_);
  if (tier_ != Tier::device)
    device_sum_ = w_.slot("norm_sum.device", Category::workspace, dtype, elems);
}

void TorchScalars::norm(const std::vector<Operand>& grads, int group, std::int64_t elems) {
  w_.acquire(sum_);
  w_.acquire(clip_);
  std::vector<Operand> operands{w_.write(sum_)};
  operands.insert(operands.end(), grads.begin(), grads.end());
  w_.compute(Kernel::grad_norm, operands);
  if (group != no_group) reduce(group, elems);
  w_.compute(Kernel::clip, {w_.write(clip_), w_.read(sum_)});
}

void TorchScalars::reduce(int group, std::int64_t elems) {
  int sum = sum_;
  if (tier_ != Tier::device) {
    sum = device_sum_;
    w_.acquire(sum);
    w_.copy(w_.read(sum_), w_.write(sum));
  }
  if (c_.ordered()) {
    c_.collectives.issue(Op::all_reduce, Reduction::sum, w_.read(sum), w_.write(sum), {}, -1,
                         group);
  } else {
    if (wire_ < 0) wire_ = w_.slot("norms", Category::workspace, Dtype::fp32, elems);
    acquire_zeroed(w_, wire_);
    const Operand first = w_.write(wire_, 0, 1);
    w_.convert(first, w_.read(sum));
    c_.collectives.issue(Op::all_reduce, Reduction::sum, w_.read(wire_), w_.write(wire_), {}, -1,
                         group);
    w_.convert(w_.write(sum), w_.read(wire_, 0, 1));
    w_.release(wire_);
  }
  if (tier_ == Tier::device) return;
  w_.copy(w_.read(sum), w_.write(sum_));
  w_.release(sum);
}

void TorchScalars::release() {
  w_.drop({sum_, clip_});
}

}  // namespace shardmark
