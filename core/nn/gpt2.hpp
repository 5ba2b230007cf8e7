// SPDX-License-Identifier: Apache-2.0
// GPT-2's forward and backward, unit by unit, as the schedules call them: embeddings, block, head.
// All memory is the caller's, sized and laid out by core/plan/gpt2_sizes.hpp; nothing is allocated
// and no call communicates. A gradient that is not accumulated into holds garbage before and is
// fully written.
//
// Shapes: R = dims.rows(), h = hidden; tokens[micro_batch][sequence + 1]; x, dx [R][h]; param and
// grad are a unit's flat buffer. Pointers are memory that ctx.space can access; work is enqueued on
// ctx.space.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <core/nn/context.hpp>
#include <core/plan/gpt2_sizes.hpp>

namespace shardmark {

/// x_out = wte[token] + wpe[position].
void embed_forward(const Context& ctx, const Gpt2Dims& dims, const std::int32_t* tokens,
                   const float* param, float* x_out);

/// One transformer block, x_in -> x_out; `saved` as block_saved(dims). Throws MemoryError where
/// `workspace` is below workspace_bytes.
void block_forward(const Context& ctx, const Gpt2Dims& dims, const float* param, const float* x_in,
                   float* x_out, float* saved, std::span<std::byte> workspace);

/// Last norm, logits, loss. `wte` is the tied weight, null unless tied. *loss (+)= the
/// micro-batch's mean cross-entropy (`first` overwrites). `saved` (head_saved(dims)) keeps the
/// logits' gradient, times grad_scale: 1 / accumulation steps.
void head_forward(const Context& ctx, const Gpt2Dims& dims, const float* param, const float* wte,
                  const std::int32_t* tokens, const float* x_in, float* saved, double* loss,
                  bool first, float grad_scale, std::span<std::byte> workspace);

/// dx = the gradient of x_in; grad of the head's own parameters; grad_wte of the tied weight (null
/// unless tied).
void head_backward(const Context& ctx, const Gpt2Dims& dims, const float* param, const float* wte,
                   const float* x_in, const float* saved, float* dx, float* grad, float* grad_wte,
                   bool accumulate, bool accumulate_wte, std::span<std::byte> workspace);

/// dx: the gradient of x_out on entry, of x_in on return.
void block_backward(const Context& ctx, const Gpt2Dims& dims, const float* param, const float* x_in,
                    const float* saved, float* dx, float* grad, bool accumulate,
                    std::span<std::byte> workspace);

/// Gradients of wte and wpe. `accumulate_wte`: the wte part already holds something that counts
/// (the tied head's share, earlier micro-batches); `accumulate` says so of wpe.
void embed_backward(const Context& ctx, const Gpt2Dims& dims, const std::int32_t* tokens,
                    const float* dx, float* grad, bool accumulate, bool accumulate_wte);

}  // namespace shardmark
