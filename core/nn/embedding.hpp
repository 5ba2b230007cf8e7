// SPDX-License-Identifier: Apache-2.0
// Token and position embeddings. Backward gathers, token by token in row order, so that the
// gradient of a token that occurs often is summed in one fixed order and without atomics.
#pragma once

#include <cstdint>

#include <core/nn/context.hpp>
#include <core/plan/gpt2_sizes.hpp>

namespace shardmark {

/// x[rows][h] = wte[token] + wpe[position]; tokens[micro_batch][sequence + 1], the last of a sample
/// is a target only.
void embedding_forward(const Context& ctx, const Gpt2Dims& dims, const std::int32_t* tokens,
                       const float* wte, const float* wpe, float* x);

/// Gradients of wte[vocab][h] and wpe[sequence][h] from dx[rows][h].
void embedding_backward(const Context& ctx, const Gpt2Dims& dims, const std::int32_t* tokens,
                        const float* dx, float* dwte, float* dwpe, bool accumulate_wte,
                        bool accumulate_wpe);

}  // namespace shardmark
