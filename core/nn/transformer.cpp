// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/nn/cross_entropy.hpp>
#include <core/nn/embedding.hpp>
#include <core/nn/gpt2.hpp>
#include <core/nn/llama.hpp>
#include <core/nn/module_call.hpp>

namespace shardmark {
namespace {

// The head's products run over pieces of the vocabulary, so that communication progresses between.
constexpr std::int64_t vocab_piece = 8192;

template<class F>
void for_each_vocab_piece(std::int64_t vocab, F f) {
  for (std::int64_t v = 0; v < vocab; v += vocab_piece) f(v, std::min(vocab_piece, vocab - v));
}

void head_forward(const ModuleCall& c, ConstStored weight) {
  const std::int64_t vocab = c.dims.vocab;
  const HeadSaved s = head_saved(c.dims);
  const Scratch scratch(c, "head", head_forward_workspace(c.dims, 0).gemm);
  const Linear linear = scratch.linear();
  const Stored logits = c.saved(s.dlogits);
  for_each_vocab_piece(vocab, [&](std::int64_t v, std::int64_t count) {
    linear.forward(c.h, count, c.saved(s.norm), weight.at(v * c.h), nullptr, logits.at(v), vocab);
  });
  cross_entropy(c.ctx, c.dims, c.b.tokens, logits, c.saved_fp32(s.row_loss),
                c.b.grad_scale / static_cast<float>(c.rows));
  mean_loss(c.ctx, c.rows, c.saved_fp32(s.row_loss), c.b.loss, c.b.first_loss);
}

void head_backward(const ModuleCall& c, ConstStored weight, Stored dweight, bool accumulate) {
  const std::int64_t vocab = c.dims.vocab;
  const HeadSaved s = head_saved(c.dims);
  const HeadBackwardWorkspace w = head_backward_workspace(c.dims, 0);
  const Scratch scratch(c, "head", w.gemm);
  const Linear linear = scratch.linear();
  for_each_vocab_piece(vocab, [&](std::int64_t v, std::int64_t count) {
    const Stored dlogits = c.saved(s.dlogits).at(v);
    linear.backward_weight(c.h, count, dlogits, c.saved(s.norm), dweight.at(v * c.h), accumulate,
                           vocab);
    linear.backward_input(c.h, count, dlogits, weight.at(v * c.h), scratch.fp32(w.dnorm), v > 0,
                          vocab);
  });
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
  if (dims.family == Family::gpt2) return gpt2_forward(c, role, t);
  return llama_forward(c, role, t);
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
  if (dims.family == Family::gpt2) return gpt2_backward(c, role, t, g);
  return llama_backward(c, role, t, g);
}

}  // namespace shardmark
