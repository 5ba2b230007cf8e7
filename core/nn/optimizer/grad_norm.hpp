// SPDX-License-Identifier: Apache-2.0
// The global gradient norm and the clipping coefficient. Each rank sums the squares of the elements
// that it owns, and one all_reduce of the sums makes the norm global. `native` sums in double, in
// blocks, with the same result in every run. `exact` sums in one wide fixed-point number, so that
// neither the partition nor the order changes a bit.
#pragma once

#include <cstdint>

#include <core/exact_sum.hpp>
#include <core/nn/kernels/storage.hpp>

namespace shardmark {

/// *sum (+)= the sum of the squares of grad[elems]; `first` overwrites.
void sum_squares(const Context& ctx, std::int64_t elems, ConstStored grad, double* sum, bool first);

/// limbs[exact_sum_limbs] (+)= the exact sum of the squares of grad[elems]; `first` overwrites.
/// Limb l counts multiples of 2^(exact_sum_lowest_bit + 32 l); the last limb counts elements that
/// are not finite. The limbs are below 2^32 on return, so that an int64 sum over up to 2^31 ranks
/// is exact.
void sum_squares_exact(const Context& ctx, std::int64_t elems, ConstStored grad,
                       std::int64_t* limbs, bool first);

/// *into += *sum, the sum of squares of another parameter group.
void add_sum(const Context& ctx, double* into, const double* sum);
void add_limbs(const Context& ctx, std::int64_t* into, const std::int64_t* limbs);

/// How gradients are scaled and clipped.
struct ClipRule {
  double clipping = 0;     // 0: no clipping
  double loss_scale = 1;   // by which the gradients are divided
  double norm_factor = 1;  // of the norm that is reported
  double made_scale = 1;   // of the loss of which the gradients were made
  /// By which the squares of updates grow to be like those of the gradients.
  KOKKOS_INLINE_FUNCTION double scale_of_updates() const { return made_scale * made_scale; }
};

/// norm = sqrt(*sum) / loss_scale, and clip[0] = norm * norm_factor. clip[1] is the factor of the
/// gradients: (clipping > 0 ? min(1, clipping / (norm + 1e-6)) : 1) / loss_scale, as in
/// torch.nn.utils.clip_grad_norm_ and in DeepSpeed's unscale_and_clip_grads.
/// `updates` is the sum of the squares of updates, which lack the loss scale; it and `sum` may be
/// null.
void clip_from_sum(const Context& ctx, const double* sum, const ClipRule& rule, double* clip,
                   const double* updates = nullptr);

/// The same from limbs, which may hold sums over ranks. The norm is not a number if any element was
/// not finite.
void clip_from_limbs(const Context& ctx, const std::int64_t* limbs, const ClipRule& rule,
                     double* clip, const std::int64_t* updates = nullptr);

/// Writes 0 for a norm that is not computed; the factor only removes the loss scale.
void clip_without_norm(const Context& ctx, const ClipRule& rule, double* clip);

/// grad[elems] *= *coefficient, in fp32 and then in the type of the gradient.
void clip_gradient(const Context& ctx, std::int64_t elems, Stored grad, const double* coefficient);

}  // namespace shardmark
