// SPDX-License-Identifier: Apache-2.0
// LayerNorm over rows of [rows][hidden], forward and backward (Ba, Kiros and Hinton, 2016), eps
// 1e-5. Forward keeps each row's mean and reciprocal standard deviation.
#pragma once

#include <cstdint>

#include <core/nn/kernels/storage.hpp>

namespace shardmark {

/// y = (x - mean) * rstd * weight + bias; writes mean[rows] and rstd[rows].
void layer_norm_forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                        ConstStored weight, ConstStored bias, Stored y, float* mean, float* rstd);

/// From dy, the gradient of the output: adds the input's gradient to dx.
void layer_norm_backward_rows(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                              ConstStored x, const float* mean, const float* rstd,
                              ConstStored weight, ConstStored dy, Stored dx);

/// The input's gradient alone, written to dx. dy may be fp32 whatever the others are.
void layer_norm_input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                               ConstStored x, const float* mean, const float* rstd,
                               ConstStored weight, ConstStored dy, Stored dx);

/// Gradients of weight and bias: sums over rows of dy * (x - mean) * rstd and of dy. dy may be fp32
/// whatever the others are.
void layer_norm_backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                                ConstStored x, const float* mean, const float* rstd, ConstStored dy,
                                Stored dweight, Stored dbias, bool accumulate);

}  // namespace shardmark
