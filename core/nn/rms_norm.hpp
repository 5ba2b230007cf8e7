// SPDX-License-Identifier: Apache-2.0
// RMSNorm over rows of [rows][hidden], forward and backward (Zhang and Sennrich, 2019), eps 1e-5.
// Forward keeps each row's reciprocal root mean square.
#pragma once

#include <cstdint>

#include <core/nn/context.hpp>

namespace shardmark {

/// y = x * rstd * weight; writes rstd[rows] = 1 / sqrt(mean(x^2) + eps).
void rms_norm_forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, const float* x,
                      const float* weight, float* y, float* rstd);

/// From dy, the gradient of the output: dx (+)= the input's gradient.
void rms_norm_input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                             const float* x, const float* rstd, const float* weight,
                             const float* dy, float* dx, bool accumulate);

/// The gradient of weight: the sum over rows of dy * x * rstd.
void rms_norm_backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                              const float* x, const float* rstd, const float* dy, float* dweight,
                              bool accumulate);

}  // namespace shardmark
