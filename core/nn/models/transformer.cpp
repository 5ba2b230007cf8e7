// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include <fmt/core.h>

#include <core/nn/layers/cross_entropy.hpp>
#include <core/nn/layers/elementwise.hpp>
#include <core/nn/layers/embedding.hpp>
#include <core/nn/models/mixture.hpp>
#include <core/nn/models/transformer.hpp>

namespace shardmark {
namespace {

// Calls `f(v, columns, logits)` for the piece of the vocabulary whose weights begin at row v: of a
// divided head for this rank's piece, which is the only one that it has weights of.
template<class F>
void for_each_piece(const TransformerDims& dims, Stored logits, const F& f) {
  const HeadPieces pieces(dims);
  if (dims.head_part.cuts())
    return f(0, pieces.columns_of(dims.head_part.rank),
             logits.at(pieces.row(dims.head_part.rank, 0)));
  for (std::int64_t piece = 0; piece < pieces.count; ++piece)
    f(pieces.first(piece), pieces.columns_of(piece), logits.at(pieces.row(piece, 0)));
}

LogitShape shape_of(const ModuleCall& c) {
  return {static_cast<float>(c.decoder.ends.logits_factor),
          static_cast<float>(c.decoder.ends.logits_softcap)};
}

// The loss of a micro-batch, and the gradient of its logits, once all logits are there.
void loss_of_logits(const ModuleCall& c) {
  const HeadSaved s = head_saved(c.dims);
  const LogitShape shape = shape_of(c);
  if (!shape.none())
    shape_logits(c.ctx, c.rows * c.dims.gathered_vocab(), c.saved(s.dlogits), shape);
  cross_entropy(c.ctx, c.dims, c.b.as<std::int32_t>(ModuleBuffer::tokens), c.saved(s.dlogits),
                c.saved_fp32(s.row_loss), c.b.grad_scale / static_cast<float>(c.rows), shape);
  auto* const loss = c.b.as<double>(ModuleBuffer::loss);
  mean_loss(c.ctx, c.rows, c.saved_fp32(s.row_loss), loss, c.b.first_loss);
  if (c.decoder.moe.balance_loss > 0) add_balance_loss(c.ctx, balance_loss_of(c), loss);
}

void head_forward(const ModuleCall& c) {
  const HeadSaved s = head_saved(c.dims);
  const Scratch scratch(c, "head", 0);
  const Linear linear = scratch.linear();
  for_each_piece(c.dims, c.saved(s.dlogits), [&](std::int64_t v, std::int64_t count, Stored to) {
    linear.forward(c.h, count, c.saved(s.norm_out), c.t.weight.at(v * c.h), bias_at(c.t.bias, v),
                   to);
  });
  if (!c.dims.head_part.cuts()) loss_of_logits(c);
}

void head_backward_end(const ModuleCall& c) {
  const Scratch scratch(c, "head", head_gradient_bytes(c.dims));
  convert(c.ctx, c.rows * c.h, {Dtype::fp32, scratch.fp32(0)}, c.partial());
}
void head_backward(const ModuleCall& c) {
  const HeadSaved s = head_saved(c.dims);
  const Scratch scratch(c, "head", head_gradient_bytes(c.dims));
  const Linear linear = scratch.linear();
  for_each_piece(c.dims, c.saved(s.dlogits), [&](std::int64_t v, std::int64_t count, Stored d) {
    if (c.g.weight.data != nullptr)
      linear.backward_weight(c.h, count, d, c.saved(s.norm_out), c.g.weight.at(v * c.h),
                             c.g.accumulate);
    if (c.dims.head_part.cuts())
      linear.backward_input(c.h, count, d, c.t.weight.at(v * c.h), c.partial());
    else
      linear.backward_input(c.h, count, d, c.t.weight.at(v * c.h), scratch.fp32(0), v > 0);
    if (c.g.bias.data != nullptr)
      bias_backward(c.ctx, c.rows, count, d, c.g.bias.at(v), c.g.accumulate);
  });
}

// A module's tensors, of which experts have those of two products.
template<class S, class P>
TensorsOf<S> tensors_at(const TransformerDims& dims, Role role, P* const* at) {
  const auto tensors = [&](P* weight, P* bias, P* down, P* down_bias, P* up) -> TensorsOf<S> {
    const Dtype type = dims.dtype;
    return {{type, weight}, {type, bias}, {type, down}, {type, down_bias}, {type, up}};
  };
  P* const none = nullptr;
  if (role != Role::experts) return tensors(at[0], at[1], none, none, none);
  if (dims.expert_part.cuts()) return tensors(at[0], none, at[1], none, at[2]);
  if (!dims.decoder->moe.bias) return tensors(at[0], none, at[1], none, none);
  return tensors(at[0], at[1], at[2], at[3], none);
}

// The residual stream after the token embedding: its output, or what a norm of it reads.
Stored embedding_output(const ModuleCall& c) {
  return c.decoder.ends.embedding_norm ? c.saved(embedding_saved(c.dims).embedding) : c.x_out();
}

}  // namespace

void transformer_forward(const Context& ctx, const TransformerDims& dims, Role role,
                         const void* const* params, const TransformerBuffers& buffers) {
  const ModuleCall c(ctx, dims, buffers, tensors_at<ConstStored>(dims, role, params));
  const HeadSaved head = head_saved(dims);
  switch (role) {
    case Role::token_embedding:
      return token_embedding_forward(ctx, dims, c.b.as<std::int32_t>(ModuleBuffer::tokens),
                                     c.t.weight, embedding_output(c));
    case Role::position_embedding:
      return position_embedding_forward(ctx, dims, c.t.weight, c.x_out());
    case Role::embedding_norm:
      return c.norm_forward(c.norm(embedding_saved(dims).norm), embedding_output(c), c.x_out());
    case Role::final_norm:
      return c.norm_forward(c.norm(head.norm), c.x_in(), c.saved(head.norm_out));
    case Role::head: return head_forward(c);
    default: return run_block(c, Kernel::forward, role);
  }
}

void transformer_backward(const Context& ctx, const TransformerDims& dims, Role role,
                          const void* const* params, void* const* grads, bool accumulate,
                          const TransformerBuffers& buffers) {
  const Gradients g{tensors_at<Stored>(dims, role, grads), accumulate};
  const ModuleCall c(ctx, dims, buffers, tensors_at<ConstStored>(dims, role, params), g);
  switch (role) {
    case Role::token_embedding:
      return token_embedding_backward(ctx, dims, c.b.as<std::int32_t>(ModuleBuffer::tokens), c.dx(),
                                      g.weight, accumulate);
    case Role::position_embedding:
      return position_embedding_backward(ctx, dims, c.dx(), g.weight, accumulate);
    case Role::embedding_norm:
      return c.norm_backward(c.norm(embedding_saved(dims).norm), embedding_output(c), c.dx(),
                             c.dx(), false, {});
    case Role::final_norm: {
      const Scratch scratch(c, "final_norm", head_gradient_bytes(dims));
      return c.norm_backward(c.norm(head_saved(dims).norm), c.x_in(), scratch.fp32(0), c.dx(),
                             false, scratch.gemm());
    }
    case Role::head: return head_backward(c);
    default: return run_block(c, Kernel::backward, role);
  }
}

void transformer_part(const Context& ctx, const TransformerDims& dims, Kernel kernel, Role role,
                      const TransformerBuffers& buffers) {
  const ModuleCall c(ctx, dims, buffers);
  if (role != Role::head) return run_block(c, kernel, role);
  kernel == Kernel::forward_end ? loss_of_logits(c) : head_backward_end(c);
}

std::vector<std::int64_t> transformer_routed_parts(const Context& ctx, const TransformerDims& dims,
                                                   const std::int32_t* sent,
                                                   const std::int32_t* received) {
  const MoeSpec& moe = dims.decoder->moe;
  const std::int64_t ranks = dims.expert_part.ranks, of_rank = moe.experts / ranks;
  std::vector<std::int64_t> parts;
  for (const std::int32_t* counts : {sent, received}) {
    const std::vector<std::int32_t> rows = on_host(ctx, counts, moe.experts);
    for (auto first = rows.begin(); first != rows.end(); first += of_rank)
      parts.push_back(std::accumulate(first, first + of_rank, std::int64_t{0}));
  }
  const std::int64_t room = arrivals_room(dims), balanced = arriving_pairs(dims);
  const std::int64_t rows = std::accumulate(parts.begin() + ranks, parts.end(), std::int64_t{0});
  if (rows > room)
    throw DeckError(fmt::format(
        "experts: {} rows arrive at a rank, {:.2f} times as many as with balanced routing, and "
        "model.expert_room = {:g} has room for {}: set a larger one",
        rows, static_cast<double>(rows) / static_cast<double>(balanced), moe.room, room));
  for (std::int64_t& part : parts) part *= dims.hidden;
  return parts;
}

}  // namespace shardmark
