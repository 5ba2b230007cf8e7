// SPDX-License-Identifier: Apache-2.0
// Muon: the update of a matrix is its momentum, orthogonalized by Newton-Schulz iterations. It is
// made of whole matrices and then applied to shards.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include <core/nn/kernels/storage.hpp>
#include <core/plan/deck/optimizers.hpp>
#include <core/plan/model/muon_sizes.hpp>

namespace shardmark {

/// A matrix of a hidden layer, row-major, and how it is orthogonalized.
struct MuonMatrix {
  std::int64_t rows = 0, cols = 0;
  Optimizer muon = Optimizer::muon;
  double beta = 0.95;  // of the momentum
};

/// Replaces `grad` by Muon's update (Jordan et al., Muon: An optimizer for hidden layers in neural
/// networks, 2024), as DeepSpeed 0.19's muon_update computes it. With X = grad:
///   staged = momentum + (1 - beta)(X - momentum),  X += beta (staged - X)
///   grad = sqrt(max(1, rows / cols)) * NewtonSchulz(X)
/// The iterations start with X / |X| and approach the nearest orthogonal matrix; they run in fp16
/// or bf16, with sums in fp32. If `grad` is not finite, `staged` is `momentum` and `grad` stays so.
/// The three have one type, fp32, bf16 or fp16; `staged` may be `momentum`. `workspace` is sized by
/// muon_workspace and begins at a cache line.
void muon_orthogonalize(const Context& ctx, const MuonMatrix& matrix, Stored grad, Stored staged,
                        ConstStored momentum, std::span<std::byte> workspace);

/// The hyperparameters of one update.
struct MuonStep {
  double lr = 0.02, weight_decay = 0;
  // An orthogonal update does not grow with the loss, so it lacks the scale of the loss by which
  // the coefficient divides.
  double lacking_scale = 1;
};

/// Applies an update: param = (1 - lr * weight_decay) * param - lr * lacking_scale *
/// clip_coefficient * update. `clip_coefficient` is null if the gradient was clipped before its
/// update was made. The other arguments are those of `adamw_update`.
void muon_update(const Context& ctx, std::int64_t elems, float* param, ConstStored update,
                 const MuonStep& step, const double* clip_coefficient,
                 std::optional<Stored> rounded = {});

}  // namespace shardmark
