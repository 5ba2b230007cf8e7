// SPDX-License-Identifier: Apache-2.0
// Forward and backward of a transformer, one call per module, in the order in which schedules call
// them. A module's parameters need to be present only while the module runs. The caller provides
// all memory, sized and laid out by core/plan/model/transformer_sizes.hpp; nothing is allocated,
// and no call communicates: a pass through a module that ranks divide has two calls. A gradient
// that is not accumulated is written completely and need not be initialised.
//
// The table in core/plan/kernels.hpp says what a module reads and writes besides its parameters.
// The modules of a unit run one after another and pass values on in `saved` and in the workspace.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <core/nn/kernels/context.hpp>
#include <core/plan/model/transformer_sizes.hpp>

namespace shardmark {

/// The buffers of a call, in memory that ctx.space can access, and what else it depends on. A
/// module accesses only those that it uses.
struct TransformerBuffers {
  EnumArray<ModuleBuffer, void*> at{};
  std::span<std::byte> workspace;  // ModuleBuffer::workspace with its size
  const void* bias = nullptr;      // [h], of a divided module, which comes after the ranks' sum
  bool first_loss = true;          // overwrite the loss
  float grad_scale = 1;            // factor of the logits' gradient
  float balance_scale = 1;         // of that of the loss that balances experts
  std::int64_t layer = 0;          // of a block
  Role adapts = Role::container;   // of an adapter's factor: the role of the product beside it
  bool input_gradient = true;      // whether backward makes the gradient of the module's input
  /// Of the host, one per expert: forward adds how many rows each has. Empty: nobody counts.
  std::span<std::int64_t> expert_rows = {};

  template<class T>
  T* as(ModuleBuffer buffer) const {
    return static_cast<T*>(at[buffer]);
  }
};

/// Runs one module forward. `params` are the module's whole tensors in registration order (weight,
/// bias; four for experts with biases), of dims.dtype, with a null pointer for a tensor that it
/// does not have. A tied head receives the token embedding. The work is enqueued on ctx.space.
/// Throws MemoryError if the workspace is too small.
void transformer_forward(const Context& ctx, const TransformerDims& dims, Role role,
                         const void* const* params, const TransformerBuffers& buffers);

/// Runs one module backward. Writes `grads`, or adds to them if `accumulate` is set; a null pointer
/// stands for the gradient of a frozen parameter, which is not made.
void transformer_backward(const Context& ctx, const TransformerDims& dims, Role role,
                          const void* const* params, void* const* grads, bool accumulate,
                          const TransformerBuffers& buffers);

/// Runs a part of a module's pass that has a call of its own, as `kernel` says:
/// * forward_end and backward_end finish a pass through a module whose layers are divided over
///   ranks. They run after the ranks have summed the buffer `partial`, or have gathered the logits.
///   dims.part says which part of each divided module this rank has. Of experts that ranks divide,
///   they run after rows or gradients have come home.
/// * forward_begin and backward_begin precede a pass through experts that ranks divide: they make
///   the rows or gradients that are sent. dims.expert_part says which experts this rank has.
/// * attention and attention_backward are that of a block whose ranks divide samples. They follow
///   the exchange of q, k and v (or of the gradient of the output) and cover all tokens with this
///   rank's heads. The passes of attn_proj are the projection alone then. dims.sequence_part says
///   which part of each sample this rank has.
void transformer_part(const Context& ctx, const TransformerDims& dims, Kernel kernel, Role role,
                      const TransformerBuffers& buffers);

/// With learned routing: how many elements this rank sends to the experts of each rank, and then
/// how many it receives from each. `sent` and `received` are counts of rows as the ranks exchange
/// them, by expert. Waits for the kernels that make them. Throws PlanError if more arrive than the
/// plan has room for.
std::vector<std::int64_t> transformer_routed_parts(const Context& ctx, const TransformerDims& dims,
                                                   const std::int32_t* sent,
                                                   const std::int32_t* received);

}  // namespace shardmark
