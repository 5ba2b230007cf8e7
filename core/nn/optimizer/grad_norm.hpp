// SPDX-License-Identifier: Apache-2.0
// The global gradient norm and the clipping coefficient. Each rank adds up the squares of what it
// owns; one all_reduce of the sums makes the norm global. `native`: sums in double, blocked, the
// same in every run. `exact`: one wide fixed-point number, so that no partition and no order
// changes a bit.
#pragma once

#include <cstdint>

#include <core/nn/kernels/storage.hpp>
#include <core/plan/write/exact_sum.hpp>

namespace shardmark {

/// *sum (+)= the squares of grad[elems]; `first` overwrites.
void sum_squares(const Context& ctx, std::int64_t elems, ConstStored grad, double* sum, bool first);

/// limbs[exact_sum_limbs] (+)= the squares of grad[elems], exactly; `first` overwrites. Limb l
/// counts 2^(exact_sum_lowest_bit + 32 l); the last limb counts elements that are not finite. Limbs
/// are left below 2^32, so that an int64 sum over up to 2^31 ranks stays exact.
void sum_squares_exact(const Context& ctx, std::int64_t elems, ConstStored grad,
                       std::int64_t* limbs, bool first);

/// into += another sum of squares: of another parameter group.
void add_sum(const Context& ctx, double* into, const double* sum);
void add_limbs(const Context& ctx, std::int64_t* into, const std::int64_t* limbs);

/// How gradients are scaled and clipped.
struct ClipRule {
  double clipping = 0;    // 0: none
  double loss_scale = 1;  // that the gradients still carry
};

/// clip[0] = norm = sqrt(*sum) / loss_scale; clip[1] = what multiplies the gradients:
/// (clipping > 0 ? min(1, clipping / (norm + 1e-6)) : 1) / loss_scale, as
/// torch.nn.utils.clip_grad_norm_ and DeepSpeed's unscale_and_clip_grads.
void clip_from_sum(const Context& ctx, const double* sum, const ClipRule& rule, double* clip);

/// The same from limbs, which may hold sums over ranks: the norm is not a number where any element
/// was not finite.
void clip_from_limbs(const Context& ctx, const std::int64_t* limbs, const ClipRule& rule,
                     double* clip);

/// The norm is 0 for "not computed"; the loss scale is all that gradients are freed from.
void clip_without_norm(const Context& ctx, const ClipRule& rule, double* clip);

}  // namespace shardmark
