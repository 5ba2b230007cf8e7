// SPDX-License-Identifier: Apache-2.0
// The optimizer's update of one shard. ZeRO partitions this work from stage 1 on.
#pragma once

#include <cstdint>
#include <optional>

#include <core/nn/kernels/storage.hpp>

namespace shardmark {

/// The hyperparameters of one update by Adam or AdamW.
struct AdamWStep {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0.01;
  std::int64_t step = 1;  // counted from 1
  bool decoupled = true;  // false: Adam, which adds weight_decay * param to g before the moments
  bool bias_correction = true;
};

/// AdamW with decoupled decay on every parameter and bias correction (Loshchilov and Hutter, ICLR
/// 2019, algorithm 2, in the order of operations of torch.optim.AdamW). With g = grad *
/// clip_coefficient:
///   param -= lr * weight_decay * param
///   m = beta1 m + (1 - beta1) g,  v = beta2 v + (1 - beta2) g^2
///   param -= lr / (1 - beta1^step) * m / (sqrt(v) / sqrt(1 - beta2^step) + eps)
/// Without `decoupled` it is Adam (Kingma and Ba, ICLR 2015) with the decay in the gradient,
///   g = grad * clip_coefficient + weight_decay * param
/// and without the first line. Without `bias_correction` both powers of beta count as 0.
/// `clip_coefficient` is one double that the kernel reads. The result of an element depends on that
/// element alone. If `rounded` is given, it receives param in the type in which the model computes,
/// while param is still in the cache.
void adamw_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad, float* m,
                  float* v, const AdamWStep& step, const double* clip_coefficient,
                  std::optional<Stored> rounded = {});

/// The second half of `adamw_update`, given the moments after the step: param becomes what the
/// update made of it, bit for bit, since the same kernel computes it. m and v keep their values,
/// but are written. For who proves an update from states before and after it.
void adamw_apply(const Context& ctx, std::int64_t elems, float* param, float* m, float* v,
                 const AdamWStep& step);

}  // namespace shardmark
