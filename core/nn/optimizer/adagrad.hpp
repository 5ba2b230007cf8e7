// SPDX-License-Identifier: Apache-2.0
// Adagrad's update of one shard, which keeps one state beside the master.
#pragma once

#include <cstdint>
#include <optional>

#include <core/nn/kernels/storage.hpp>

namespace shardmark {

/// The hyperparameters of one update by Adagrad.
struct AdagradStep {
  double lr = 1e-2, lr_decay = 0, eps = 1e-10, weight_decay = 0;
  double first_accumulator = 0;  // the value of v before the first step
  std::int64_t step = 1;         // counted from 1
};

/// Adagrad (Duchi, Hazan and Singer, JMLR 2011) in the order of operations of torch.optim.Adagrad
/// and, without lr_decay, of DeepSpeed's CPU Adagrad. With
/// g = grad * clip_coefficient + weight_decay * param:
///   v += g^2,  param -= lr / (1 + (step - 1) * lr_decay) * g / (sqrt(v) + eps)
/// The first step takes first_accumulator for v. The other arguments are those of `adamw_update`.
void adagrad_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad,
                    float* v, const AdagradStep& step, const double* clip_coefficient,
                    std::optional<Stored> rounded = {});

}  // namespace shardmark
