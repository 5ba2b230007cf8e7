// SPDX-License-Identifier: Apache-2.0
// The loss: mean cross-entropy over the rows of a micro-batch, fused with its gradient, so that
// logits and their gradient are one buffer.
#pragma once

#include <cstdint>

#include <core/nn/storage.hpp>
#include <core/plan/transformer_sizes.hpp>

namespace shardmark {

/// logits[rows][vocab] become (softmax - one_hot(target)) * scale in place; row_loss[rows] gets
/// each row's cross-entropy. The target of a row is the token after it.
void cross_entropy(const Context& ctx, const TransformerDims& dims, const std::int32_t* tokens,
                   Stored logits, float* row_loss, float scale);

/// *loss (+)= the mean of row_loss, in double and row order; `first` overwrites.
void mean_loss(const Context& ctx, std::int64_t rows, const float* row_loss, double* loss,
               bool first);

}  // namespace shardmark
