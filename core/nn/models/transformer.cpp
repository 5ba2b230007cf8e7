// SPDX-License-Identifier: Apache-2.0
#include <string>

#include <core/error.hpp>
#include <core/nn/layers/cross_entropy.hpp>
#include <core/nn/layers/embedding.hpp>
#include <core/nn/models/gpt2.hpp>
#include <core/nn/models/llama.hpp>
#include <core/nn/models/module_call.hpp>

namespace shardmark {
namespace {

// Calls `f(v, columns, logits)` for the piece of the vocabulary that begins at token v.
template<class F>
void for_each_piece(const TransformerDims& dims, Stored logits, const F& f) {
  const HeadPieces pieces(dims);
  for (std::int64_t v = 0; v < dims.vocab; v += pieces.columns)
    f(v, pieces.columns_of(v), logits.at(pieces.row(v, 0)));
}

void head_forward(const ModuleCall& c, ConstStored weight) {
  const HeadSaved s = head_saved(c.dims);
  const Scratch scratch(c, "head", head_forward_workspace(c.dims, 0).gemm);
  const Linear linear = scratch.linear();
  for_each_piece(c.dims, c.saved(s.dlogits), [&](std::int64_t v, std::int64_t count, Stored to) {
    linear.forward(c.h, count, c.saved(s.norm), weight.at(v * c.h), nullptr, to);
  });
  cross_entropy(c.ctx, c.dims, c.b.tokens, c.saved(s.dlogits), c.saved_fp32(s.row_loss),
                c.b.grad_scale / static_cast<float>(c.rows));
  mean_loss(c.ctx, c.rows, c.saved_fp32(s.row_loss), c.b.loss, c.b.first_loss);
}

void head_backward(const ModuleCall& c, ConstStored weight, Stored dweight, bool accumulate) {
  const HeadSaved s = head_saved(c.dims);
  const HeadBackwardWorkspace w = head_backward_workspace(c.dims, 0);
  const Scratch scratch(c, "head", w.gemm);
  const Linear linear = scratch.linear();
  for_each_piece(c.dims, c.saved(s.dlogits), [&](std::int64_t v, std::int64_t count, Stored d) {
    linear.backward_weight(c.h, count, d, c.saved(s.norm), dweight.at(v * c.h), accumulate);
    linear.backward_input(c.h, count, d, weight.at(v * c.h), scratch.fp32(w.dnorm), v > 0);
  });
}

[[noreturn]] void throw_no_arithmetic(Family family) {
  throw PlanError("model.family " + std::string(to_string(family)) + ": has no arithmetic");
}

}  // namespace

void transformer_forward(const Context& ctx, const TransformerDims& dims, Role role,
                         const void* const* params, const TransformerBuffers& buffers) {
  const ModuleCall c(ctx, dims, buffers);
  const Tensors t{{dims.dtype, params[0]}, {dims.dtype, params[1]}};
  switch (role) {
    case Role::token_embedding:
      return token_embedding_forward(ctx, dims, buffers.tokens, t.weight, c.x_out());
    case Role::head: return head_forward(c, t.weight);
    default: break;
  }
  switch (dims.family) {
    case Family::gpt2: return gpt2_forward(c, role, t);
    case Family::llama: return llama_forward(c, role, t);
    case Family::list: break;
  }
  throw_no_arithmetic(dims.family);
}

void transformer_backward(const Context& ctx, const TransformerDims& dims, Role role,
                          const void* const* params, void* const* grads, bool accumulate,
                          const TransformerBuffers& buffers) {
  const ModuleCall c(ctx, dims, buffers);
  const Tensors t{{dims.dtype, params[0]}, {dims.dtype, params[1]}};
  const Gradients g{{dims.dtype, grads[0]}, {dims.dtype, grads[1]}, accumulate};
  switch (role) {
    case Role::token_embedding:
      return token_embedding_backward(ctx, dims, buffers.tokens, c.dx(), g.weight, accumulate);
    case Role::head: return head_backward(c, t.weight, g.weight, accumulate);
    default: break;
  }
  switch (dims.family) {
    case Family::gpt2: return gpt2_backward(c, role, t, g);
    case Family::llama: return llama_backward(c, role, t, g);
    case Family::list: break;
  }
  throw_no_arithmetic(dims.family);
}

}  // namespace shardmark
