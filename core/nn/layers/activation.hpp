// SPDX-License-Identifier: Apache-2.0
// The activations of an MLP, on their own or as a gate (Shazeer, GLU Variants, 2020). Sizes are in
// elements.
#pragma once

#include <cmath>
#include <cstdint>

#include <core/nn/kernels/kernel.hpp>
#include <core/nn/kernels/storage.hpp>
#include <core/plan/deck/decoder.hpp>

namespace shardmark {

/// y = f(x).
void activation_forward(const Context& ctx, Activation f, std::int64_t elems, ConstStored x,
                        Stored y);

/// Computes y = f(x) again, and turns d from the gradient of y into the gradient of x.
void activation_backward(const Context& ctx, Activation f, std::int64_t elems, ConstStored x,
                         Stored y, Stored d);

/// The rows of gate and up, which are `stride` elements apart, and their elements, which are `step`
/// apart; those of other tensors are `columns` elements apart.
struct GatedRows {
  std::int64_t rows, columns, stride, step = 1;

  /// Where up begins in a tensor that has both: behind gate, or between its elements.
  std::int64_t up() const { return step > 1 ? 1 : columns; }
};

/// y = f(gate) * up, or as `rule` says, which has an activation of its own unless it is plain.
void gated_forward(const Context& ctx, Activation f, const GatedRows& size, ConstStored gate,
                   ConstStored up, Stored y, const GateRule& rule = {});

/// Computes y again, and the gradients of gate and up from dy, that of y. y may be dy; dgate may be
/// dy if both have the same stride. If the rule has a limit, dup is the gradient of up between its
/// limits: where they cut, it is still to be dropped.
void gated_backward(const Context& ctx, Activation f, const GatedRows& size, ConstStored gate,
                    ConstStored up, ConstStored dy, Stored y, Stored dgate, Stored dup,
                    const GateRule& rule = {});

/// What a rule makes of up.
struct UpRule {
  float limit, offset;
  explicit UpRule(const GateRule& rule)
      : limit(rule.limit > 0 ? static_cast<float>(rule.limit) : INFINITY),
        offset(static_cast<float>(rule.offset)) {}
  KOKKOS_INLINE_FUNCTION bool cuts(float up) const { return up > limit || up < -limit; }
  KOKKOS_INLINE_FUNCTION float operator()(float up) const {
    return (up > limit ? limit : up < -limit ? -limit : up) + offset;
  }
};

}  // namespace shardmark
