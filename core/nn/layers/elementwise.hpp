// SPDX-License-Identifier: Apache-2.0
// The small kernels between products: residual sums and gradients of biases. Sizes are in elements.
#pragma once

#include <cstdint>

#include <core/nn/kernels/storage.hpp>

namespace shardmark {

/// out = x + factor * (out + bias) over [rows][hidden]. On entry `out` holds a product;
/// bias[hidden] is its bias.
void bias_residual(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                   ConstStored bias, Stored out, float factor = 1);

/// out = x + factor * out.
void residual(const Context& ctx, std::int64_t elems, ConstStored x, Stored out, float factor = 1);

/// out += x, which may be fp32.
void add_to(const Context& ctx, std::int64_t elems, ConstStored x, Stored out);

/// out = factor * x.
void scaled_copy(const Context& ctx, std::int64_t elems, ConstStored x, float factor, Stored out);

/// dbias[columns] (+)= the sum over rows of dy[rows][columns], which may be fp32.
void bias_backward(const Context& ctx, std::int64_t rows, std::int64_t columns, ConstStored dy,
                   Stored dbias, bool accumulate);

}  // namespace shardmark
