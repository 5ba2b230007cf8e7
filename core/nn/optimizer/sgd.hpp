// SPDX-License-Identifier: Apache-2.0
// Stochastic gradient descent on one shard, with or without momentum.
#pragma once

#include <cstdint>
#include <optional>

#include <core/nn/kernels/storage.hpp>

namespace shardmark {

/// The hyperparameters of one update by SGD.
struct SgdStep {
  double lr = 1e-3, momentum = 0, dampening = 0, weight_decay = 0;
  bool nesterov = false;
  std::int64_t step = 1;  // counted from 1
};

/// SGD in the order of operations of torch.optim.SGD. With
/// g = grad * clip_coefficient + weight_decay * param:
///   m = step == 1 ? g : momentum m + (1 - dampening) g
///   param -= lr * (nesterov ? g + momentum m : m)
/// `m` is null without momentum, and then param -= lr * g. The other arguments are those of
/// `adamw_update`.
void sgd_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad, float* m,
                const SgdStep& step, const double* clip_coefficient,
                std::optional<Stored> rounded = {});

}  // namespace shardmark
