// SPDX-License-Identifier: Apache-2.0
// LayerNorm over the rows of [rows][hidden], forward and backward (Ba, Kiros and Hinton, 2016).
// Forward keeps the mean and the reciprocal standard deviation of each row.
#pragma once

#include <cstdint>

#include <core/nn/kernels/storage.hpp>

namespace shardmark {

/// What is added to the variance of a row, and to the weights before they multiply.
struct NormRule {
  float eps = 1e-5f, offset = 0;
};

/// y = (x - mean) * rstd * (offset + weight) + bias; writes mean[rows] and rstd[rows]. Without a
/// weight (a null pointer) there is no bias either, and y = (x - mean) * rstd; without a bias
/// nothing is added.
void layer_norm_forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                        ConstStored weight, ConstStored bias, Stored y, float* mean, float* rstd,
                        const NormRule& rule = {});

/// Writes the gradient of the input to dx, or adds it, from dy, the gradient of the output. dy may
/// be fp32 whatever the other types are, and dx may be dy.
void layer_norm_input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                               ConstStored x, const float* mean, const float* rstd,
                               ConstStored weight, ConstStored dy, Stored dx, bool accumulate,
                               const NormRule& rule = {});

/// Writes or adds the gradients of weight and bias: the sums over rows of dy * (x - mean) * rstd
/// and of dy; without a bias (a null pointer) the first only. dy may be fp32 whatever the other
/// types are.
void layer_norm_backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                                ConstStored x, const float* mean, const float* rstd, ConstStored dy,
                                Stored dweight, Stored dbias, bool accumulate);

}  // namespace shardmark
