// SPDX-License-Identifier: Apache-2.0
// Token and position embeddings. Backward collects the rows of each token in the order of rows, so
// that the gradient of a frequent token is summed in a fixed order and without atomics.
#pragma once

#include <cstdint>

#include <core/nn/kernels/storage.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// x[rows][h] = wte[token], times the description's factor. tokens is [micro_batch][sequence + 1];
/// the last token of a sample is only a target.
void token_embedding_forward(const Context& ctx, const TransformerDims& dims,
                             const std::int32_t* tokens, ConstStored wte, Stored x);

/// x[rows][h] += wpe[offset + position], with the description's offset.
void position_embedding_forward(const Context& ctx, const TransformerDims& dims, ConstStored wpe,
                                Stored x);

/// Writes or adds the gradient of wte[vocab][h] from dx[rows][h]. The description's padding token
/// gets none.
void token_embedding_backward(const Context& ctx, const TransformerDims& dims,
                              const std::int32_t* tokens, ConstStored dx, Stored dwte,
                              bool accumulate);

/// Writes or adds the gradient of all rows of wpe from dx[rows][h]. The table has as many rows as
/// the description says, or as there are positions, the offset included.
void position_embedding_backward(const Context& ctx, const TransformerDims& dims, ConstStored dx,
                                 Stored dwpe, bool accumulate);

}  // namespace shardmark
