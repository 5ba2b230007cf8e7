// SPDX-License-Identifier: Apache-2.0
// RMSNorm over the rows of [rows][hidden], forward and backward (Zhang and Sennrich, 2019). Forward
// keeps the reciprocal root mean square of each row. The rows of x, and of its gradient, may be
// parts of wider rows: `x_stride` elements lie between two of them, or `hidden` if it is 0.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <core/nn/layers/layer_norm.hpp>

namespace shardmark {

/// y = x * rstd * (offset + weight); writes rstd[rows] = 1 / sqrt(mean(x^2) + eps).
void rms_norm_forward(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                      ConstStored weight, Stored y, float* rstd, const NormRule& rule = {},
                      std::int64_t x_stride = 0);

/// Writes the gradient of the input to dx, or adds it, from dy, the gradient of the output. dy may
/// be fp32 whatever the other types are, and dx may be dy.
void rms_norm_input_gradient(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                             ConstStored x, const float* rstd, ConstStored weight, ConstStored dy,
                             Stored dx, bool accumulate, const NormRule& rule = {},
                             std::int64_t x_stride = 0);

/// Writes or adds the gradient of weight: the sum over rows of dy * x * rstd. dy may be fp32
/// whatever the other types are.
void rms_norm_backward_params(const Context& ctx, std::int64_t rows, std::int64_t hidden,
                              ConstStored x, const float* rstd, ConstStored dy, Stored dweight,
                              bool accumulate, std::int64_t x_stride = 0);

/// Does what the two functions above do in one pass over rows that lie one after another, on a GPU.
/// Returns false, and does nothing, on a host, for rows that NormTeams does not take, and if
/// `scratch` has no room for a row of fp32 sums per team.
bool rms_norm_gradients(const Context& ctx, std::int64_t rows, std::int64_t hidden, ConstStored x,
                        const float* rstd, ConstStored weight, ConstStored dy, Stored dx, bool add,
                        Stored dweight, bool accumulate, std::span<std::byte> scratch,
                        const NormRule& rule = {});

}  // namespace shardmark
