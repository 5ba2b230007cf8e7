// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/nn/layers/cross_entropy.hpp>
#include <core/nn/layers/elementwise.hpp>
#include <core/nn/layers/embedding.hpp>
#include <core/nn/models/decoder.hpp>
#include <core/nn/models/mixture.hpp>

namespace shardmark {
namespace {

// Calls `f(v, columns, logits)` for the piece of the vocabulary whose weights begin at token v: of
// a divided head for this rank's piece, which is the only one that it has weights of.
template<class F>
void for_each_piece(const TransformerDims& dims, Stored logits, const F& f) {
  const HeadPieces pieces(dims);
  if (dims.part.cuts())
    return f(0, pieces.columns, logits.at(pieces.row(dims.part.rank * pieces.columns, 0)));
  for (std::int64_t v = 0; v < dims.vocab; v += pieces.columns)
    f(v, pieces.columns_of(v), logits.at(pieces.row(v, 0)));
}

LogitShape shape_of(const ModuleCall& c) {
  return {static_cast<float>(c.decoder.ends.logits_factor),
          static_cast<float>(c.decoder.ends.logits_softcap)};
}

// The loss of a micro-batch, and the gradient of its logits, once all logits are there.
void loss_of_logits(const ModuleCall& c) {
  const HeadSaved s = head_saved(c.dims);
  const LogitShape shape = shape_of(c);
  if (!shape.none()) shape_logits(c.ctx, c.rows * c.dims.vocab, c.saved(s.dlogits), shape);
  cross_entropy(c.ctx, c.dims, c.b.tokens, c.saved(s.dlogits), c.saved_fp32(s.row_loss),
                c.b.grad_scale / static_cast<float>(c.rows), shape);
  mean_loss(c.ctx, c.rows, c.saved_fp32(s.row_loss), c.b.loss, c.b.first_loss);
  if (c.decoder.moe.balance_loss > 0) add_balance_loss(c.ctx, balance_loss_of(c), c.b.loss);
}

void head_forward(const ModuleCall& c, Tensors t) {
  const HeadSaved s = head_saved(c.dims);
  const Scratch scratch(c, "head", head_forward_workspace(c.dims, 0).gemm);
  const Linear linear = scratch.linear();
  for_each_piece(c.dims, c.saved(s.dlogits), [&](std::int64_t v, std::int64_t count, Stored to) {
    const ConstStored bias = t.bias.data == nullptr ? t.bias : t.bias.at(v);
    linear.forward(c.h, count, c.saved(s.norm), t.weight.at(v * c.h), bias, to);
  });
  if (!c.divided()) loss_of_logits(c);
}

void head_backward_end(const ModuleCall& c) {
  const HeadBackwardWorkspace w = head_backward_workspace(c.dims, 0);
  const Scratch scratch(c, "head", w.gemm);
  convert(c.ctx, c.rows * c.h, {Dtype::fp32, scratch.fp32(w.dnorm)}, c.partial());
}
void head_backward(const ModuleCall& c, Tensors t, Gradients g) {
  const HeadSaved s = head_saved(c.dims);
  const HeadBackwardWorkspace w = head_backward_workspace(c.dims, 0);
  const Scratch scratch(c, "head", w.gemm);
  const Linear linear = scratch.linear();
  for_each_piece(c.dims, c.saved(s.dlogits), [&](std::int64_t v, std::int64_t count, Stored d) {
    if (g.weight.data != nullptr)
      linear.backward_weight(c.h, count, d, c.saved(s.norm), g.weight.at(v * c.h), g.accumulate);
    if (c.divided())
      linear.backward_input(c.h, count, d, t.weight.at(v * c.h), c.partial());
    else
      linear.backward_input(c.h, count, d, t.weight.at(v * c.h), scratch.fp32(w.dnorm), v > 0);
    if (g.bias.data != nullptr) bias_backward(c.ctx, c.rows, count, d, g.bias.at(v), g.accumulate);
  });
}

// Calls `f` with the pointers to weight, bias, down and its bias: experts have two products.
template<class P, class F>
auto with_places(const TransformerDims& dims, Role role, P const* params, const F& f) {
  const P none = nullptr;
  if (role != Role::experts) return f(params[0], params[1], none, none);
  if (!dims.decoder->moe.bias) return f(params[0], none, params[1], none);
  return f(params[0], params[1], params[2], params[3]);
}
Tensors tensors_at(const TransformerDims& dims, Role role, const void* const* params) {
  const Dtype type = dims.dtype;
  return with_places(dims, role, params, [&](auto w, auto b, auto down, auto down_bias) {
    return Tensors{{type, w}, {type, b}, {type, down}, {type, down_bias}};
  });
}

// The residual stream after the token embedding: its output, or what a norm of it reads.
Stored embedding_output(const ModuleCall& c) {
  return c.decoder.ends.embedding_norm ? c.saved(embedding_saved(c.dims).embedding) : c.x_out();
}

}  // namespace

void transformer_forward(const Context& ctx, const TransformerDims& dims, Role role,
                         const void* const* params, const TransformerBuffers& buffers) {
  const TransformerDims of_layer = dims_of_layer(dims, std::max<std::int64_t>(buffers.layer, 0));
  const ModuleCall c(ctx, of_layer, buffers);
  const Tensors t = tensors_at(dims, role, params);
  switch (role) {
    case Role::token_embedding:
      return token_embedding_forward(ctx, dims, buffers.tokens, t.weight, embedding_output(c));
    case Role::head: return head_forward(c, t);
    default: return decoder_forward(c, role, t);
  }
}

void transformer_backward(const Context& ctx, const TransformerDims& dims, Role role,
                          const void* const* params, void* const* grads, bool accumulate,
                          const TransformerBuffers& buffers) {
  const TransformerDims of_layer = dims_of_layer(dims, std::max<std::int64_t>(buffers.layer, 0));
  const ModuleCall c(ctx, of_layer, buffers);
  const Tensors t = tensors_at(dims, role, params);
  const Dtype type = dims.dtype;
  const auto g = with_places(dims, role, grads, [&](auto w, auto b, auto down, auto down_bias) {
    return Gradients{{type, w}, {type, b}, {type, down}, {type, down_bias}, accumulate};
  });
  switch (role) {
    case Role::token_embedding:
      return token_embedding_backward(ctx, dims, buffers.tokens, c.dx(), g.weight, accumulate);
    case Role::head: return head_backward(c, t, g);
    default: return decoder_backward(c, role, t, g);
  }
}

void transformer_forward_end(const Context& ctx, const TransformerDims& dims, Role role,
                             const TransformerBuffers& buffers) {
  const ModuleCall c(ctx, dims, buffers);
  role == Role::head ? loss_of_logits(c) : decoder_forward_end(c, role);
}

void transformer_backward_end(const Context& ctx, const TransformerDims& dims, Role role,
                              const TransformerBuffers& buffers) {
  const ModuleCall c(ctx, dims, buffers);
  role == Role::head ? head_backward_end(c) : decoder_backward_end(c, role);
}

void transformer_attention(const Context& ctx, const TransformerDims& dims,
                           const TransformerBuffers& buffers) {
  decoder_attention(ModuleCall(ctx, dims, buffers));
}

void transformer_attention_backward(const Context& ctx, const TransformerDims& dims,
                                    const TransformerBuffers& buffers) {
  decoder_attention_backward(ModuleCall(ctx, dims, buffers));
}

}  // namespace shardmark
