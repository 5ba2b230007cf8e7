// SPDX-License-Identifier: Apache-2.0
// Lion's update of one shard, which keeps one state beside the master.
#pragma once

#include <cstdint>
#include <optional>

#include <core/nn/kernels/storage.hpp>

namespace shardmark {

/// The hyperparameters of one update by Lion.
struct LionStep {
  double lr = 1e-3, beta1 = 0.9, beta2 = 0.999, weight_decay = 0;
  // What an update of exactly 0 does: DeepSpeed's kernel for GPUs then adds lr, its kernel for the
  // host subtracts it from the parameter where the 0 is positive.
  bool zero_is_positive = false;
};

/// Lion (Chen et al., Symbolic Discovery of Optimization Algorithms, 2023, algorithm 2), as
/// DeepSpeed 0.19 computes it. With g = grad * clip_coefficient and c = beta1 m + (1 - beta1) g:
///   param = (1 - lr * weight_decay) * param - lr * sign(c),  m = beta2 m + (1 - beta2) g
/// where the sign of 0 is never 0: see LionStep. The other arguments are those of `adamw_update`.
void lion_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad, float* m,
                 const LionStep& step, const double* clip_coefficient,
                 std::optional<Stored> rounded = {});

}  // namespace shardmark
