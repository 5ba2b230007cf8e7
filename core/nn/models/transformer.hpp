// SPDX-License-Identifier: Apache-2.0
// A transformer's forward and backward, module by module, as the schedules call them: so that each
// module's parameters need only be there while it runs, wherever a stage keeps them. All memory is
// the caller's, sized and laid out by core/plan/model/transformer_sizes.hpp; nothing is allocated
// and no call communicates. A gradient that is not accumulated into holds garbage before and is
// fully written.
//
// What a module reads and writes besides its parameters is the table of core/plan/kernels.hpp.
// A unit's modules follow each other: they hand values on in `saved` and in the workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <core/nn/kernels/context.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// Shapes: R = dims.rows(), h = hidden. Pointers are memory that ctx.space can access, tensors of
/// dims.dtype; a module looks only at those that it uses.
struct TransformerBuffers {
  const std::int32_t* tokens = nullptr;    // [micro_batch][sequence + 1]
  void *x_in = nullptr, *x_out = nullptr;  // [R][h], the residual stream
  void* dx = nullptr;                      // [R][h], its gradient
  void* saved = nullptr;                   // as the unit's layout has it, saved_elems
  double* loss = nullptr;                  // (+)= the micro-batch's mean cross-entropy
  bool first_loss = true;                  // overwrite the loss
  float grad_scale = 1;                    // of the logits' gradient
  std::span<std::byte> workspace;          // of the unit, workspace_bytes
};

/// `params`: the module's tensors in registration order (weight, bias), whole; two pointers, null
/// where it has fewer; of dims.dtype, as the gradients. A tied head is given the token embedding.
/// Work is enqueued on ctx.space. Throws MemoryError where the workspace is too small.
void transformer_forward(const Context& ctx, const TransformerDims& dims, Role role,
                         const void* const* params, const TransformerBuffers& buffers);

/// Writes `grads`, or adds to them where `accumulate` says so.
void transformer_backward(const Context& ctx, const TransformerDims& dims, Role role,
                          const void* const* params, void* const* grads, bool accumulate,
                          const TransformerBuffers& buffers);

}  // namespace shardmark
