// SPDX-License-Identifier: Apache-2.0
// The small kernels between products: residual sums, GELU, bias gradients.
#pragma once

#include <cstdint>

#include <core/nn/context.hpp>

namespace shardmark {

/// out = x + (out + bias), over [rows][hidden]: `out` holds a product, bias[hidden] its bias.
void bias_residual(const Context& ctx, std::int64_t rows, std::int64_t hidden, const float* x,
                   const float* bias, float* out);

/// y = gelu(x).
void gelu_forward(const Context& ctx, std::int64_t elems, const float* x, float* y);

/// y = gelu(x) again, and d, the gradient of y, becomes that of x.
void gelu_backward(const Context& ctx, std::int64_t elems, const float* x, float* y, float* d);

/// dbias[columns] (+)= the sum over rows of dy[rows][columns].
void bias_backward(const Context& ctx, std::int64_t rows, std::int64_t columns, const float* dy,
                   float* dbias, bool accumulate);

}  // namespace shardmark
