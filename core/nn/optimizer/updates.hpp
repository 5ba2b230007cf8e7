// SPDX-License-Identifier: Apache-2.0
// The optimizers' updates of one shard. ZeRO partitions this work from stage 1 on.
//
// `clip_coefficient` is one double that the kernel reads. The result of an element depends on that
// element alone. If `rounded` is given, it receives param in the type in which the model computes,
// while param is still in the cache.
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
void adamw_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad, float* m,
                  float* v, const AdamWStep& step, const double* clip_coefficient,
                  std::optional<Stored> rounded = {});

/// The second half of `adamw_update`, given the moments after the step: param becomes what the
/// update made of it, bit for bit, since the same kernel computes it. m and v keep their values,
/// but are written. For who proves an update from states before and after it.
void adamw_apply(const Context& ctx, std::int64_t elems, float* param, float* m, float* v,
                 const AdamWStep& step);

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
/// The first step takes first_accumulator for v.
void adagrad_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad,
                    float* v, const AdagradStep& step, const double* clip_coefficient,
                    std::optional<Stored> rounded = {});

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
/// where the sign of 0 is never 0: see LionStep.
void lion_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad, float* m,
                 const LionStep& step, const double* clip_coefficient,
                 std::optional<Stored> rounded = {});

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
/// `m` is null without momentum, and then param -= lr * g.
void sgd_update(const Context& ctx, std::int64_t elems, float* param, ConstStored grad, float* m,
                const SgdStep& step, const double* clip_coefficient,
                std::optional<Stored> rounded = {});

}  // namespace shardmark
