// SPDX-License-Identifier: Apache-2.0
// Token and position embeddings. Backward gathers, token by token in row order, so that the
// gradient of a token that occurs often is summed in one fixed order and without atomics.
#pragma once

#include <cstdint>

#include <core/nn/kernels/storage.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// x[rows][h] = wte[token]; tokens[micro_batch][sequence + 1], the last of a sample is a target
/// only.
void token_embedding_forward(const Context& ctx, const TransformerDims& dims,
                             const std::int32_t* tokens, ConstStored wte, Stored x);

/// x[rows][h] += wpe[position].
void position_embedding_forward(const Context& ctx, const TransformerDims& dims, ConstStored wpe,
                                Stored x);

/// The gradient of wte[vocab][h] from dx[rows][h].
void token_embedding_backward(const Context& ctx, const TransformerDims& dims,
                              const std::int32_t* tokens, ConstStored dx, Stored dwte,
                              bool accumulate);

/// The gradient of wpe[sequence][h] from dx[rows][h].
void position_embedding_backward(const Context& ctx, const TransformerDims& dims, ConstStored dx,
                                 Stored dwpe, bool accumulate);

}  // namespace shardmark
