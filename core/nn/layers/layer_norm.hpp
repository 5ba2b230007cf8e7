// SPDX-License-Identifier: Apache-2.0
// LayerNorm over the rows of [rows][hidden], forward and backward (Ba, Kiros and Hinton, 2016),
// with eps 1e-5. Forward keeps the mean and the reciprocal standard deviation of each row.
#pragma once

#include <cstdint>

#include <core/nn/kernels/storage.hpp>

namespace shardmark {

/// y = (x - mean) * rstd * weight + bias; writes mean[rows] and rstd[rows].
void layer_norm_forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                        ConstStored weight, ConstStored bias, Stored y, float* mean, float* rstd);

/// Adds the gradient of the input to dx, from dy, the gradient of the output.
void layer_norm_backward_rows(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                              ConstStored x, const float* mean, const float* rstd,
                              ConstStored weight, ConstStored dy, Stored dx);

/// Writes the gradient of the input to dx, without adding. dy may be fp32 whatever the other types
/// are.
void layer_norm_input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                               ConstStored x, const float* mean, const float* rstd,
                               ConstStored weight, ConstStored dy, Stored dx);

/// Writes or adds the gradients of weight and bias: the sums over rows of dy * (x - mean) * rstd
/// and of dy. dy may be fp32 whatever the other types are.
void layer_norm_backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                                ConstStored x, const float* mean, const float* rstd, ConstStored dy,
                                Stored dweight, Stored dbias, bool accumulate);

}  // namespace shardmark
