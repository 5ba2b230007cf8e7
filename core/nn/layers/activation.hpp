// SPDX-License-Identifier: Apache-2.0
// The activations of an MLP, on their own or as a gate (Shazeer, GLU Variants, 2020). Sizes are in
// elements.
#pragma once

#include <cstdint>

#include <core/nn/kernels/storage.hpp>
#include <core/plan/deck/decoder.hpp>

namespace shardmark {

/// y = f(x).
void activation_forward(const Context& ctx, Activation f, std::int64_t elems, ConstStored x,
                        Stored y);

/// Computes y = f(x) again, and turns d from the gradient of y into the gradient of x.
void activation_backward(const Context& ctx, Activation f, std::int64_t elems, ConstStored x,
                         Stored y, Stored d);

/// The rows of gate and up, which are `stride` elements apart; those of other tensors are `columns`
/// elements apart.
struct GatedRows {
  std::int64_t rows, columns, stride;
};

/// y = f(gate) * up.
void gated_forward(const Context& ctx, Activation f, const GatedRows& size, ConstStored gate,
                   ConstStored up, Stored y);

/// Computes y again, and the gradients of gate and up from dy, that of y. y may be dy; dgate may be
/// dy if both have the same stride.
void gated_backward(const Context& ctx, Activation f, const GatedRows& size, ConstStored gate,
                    ConstStored up, ConstStored dy, Stored y, Stored dgate, Stored dup);

}  // namespace shardmark
