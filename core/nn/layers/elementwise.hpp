// SPDX-License-Identifier: Apache-2.0
// The small kernels between products: residual sums, GELU, SwiGLU, and gradients of biases. Sizes
// are in elements.
#pragma once

#include <cstdint>

#include <core/nn/kernels/storage.hpp>

namespace shardmark {

/// out = x + (out + bias) over [rows][hidden]. On entry `out` holds a product; bias[hidden] is its
/// bias.
void bias_residual(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                   ConstStored bias, Stored out);

/// out = x + out.
void residual(const Context& ctx, std::int64_t elems, ConstStored x, Stored out);

/// y = gelu(x).
void gelu_forward(const Context& ctx, std::int64_t elems, ConstStored x, Stored y);

/// Computes y = gelu(x) again, and turns d from the gradient of y into the gradient of x.
void gelu_backward(const Context& ctx, std::int64_t elems, ConstStored x, Stored y, Stored d);

/// y = silu(gate) * up (Shazeer, GLU Variants, 2020), where silu(x) = x / (1 + e^-x).
void swiglu_forward(const Context& ctx, std::int64_t elems, ConstStored gate, ConstStored up,
                    Stored y);

/// Computes y again. On entry dgate holds the gradient of y; on return it holds that of gate, and
/// dup holds that of up.
void swiglu_backward(const Context& ctx, std::int64_t elems, ConstStored gate, ConstStored up,
                     Stored y, Stored dgate, Stored dup);

/// dbias[columns] (+)= the sum over rows of dy[rows][columns].
void bias_backward(const Context& ctx, std::int64_t rows, std::int64_t columns, ConstStored dy,
                   Stored dbias, bool accumulate);

}  // namespace shardmark
