// SPDX-License-Identifier: Apache-2.0
// The scalars of a step under `torch`: the norm of all gradients, as clip_grad_norm_ computes it,
// and the coefficient by which the update multiplies them.
#pragma once

#include <vector>

#include <core/plan/torch/torch_context.hpp>

namespace shardmark {

/// Declares these scalars and writes the events that make them. `tier` is where gradients are.
class TorchScalars : private TorchPart {
 public:
  TorchScalars(TorchContext& context, Tier tier);

  /// Sums the squares of this rank's gradients. If `group` is not no_group its ranks hold different
  /// parts: one all_reduce adds up `elems` values in fp32, which is what PyTorch sends, one value
  /// per parameter. (Here the first value is the sum over all parameters, and the others are zero.)
  void norm(const std::vector<Operand>& grads, int group, std::int64_t elems);
  /// The slot with the coefficient.
  int clip() const { return clip_; }
  void release();

 private:
  void reduce(int group, std::int64_t elems);

  const Tier tier_;
  int sum_ = -1, clip_ = -1, device_sum_ = -1, wire_ = -1;
};

}  // namespace shardmark
