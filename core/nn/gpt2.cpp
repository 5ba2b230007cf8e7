// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include <core/error.hpp>
#include <core/nn/attention.hpp>
#include <core/nn/cross_entropy.hpp>
#include <core/nn/elementwise.hpp>
#include <core/nn/embedding.hpp>
#include <core/nn/gpt2.hpp>
#include <core/nn/layer_norm.hpp>
#include <core/nn/linear.hpp>

namespace shardmark {
namespace {

// The workspace as the layouts see it: fp32 elements, then the products' scratch. The layouts
// reserve the cap; what the caller gives beyond the elements is the products' to use.
class Scratch {
 public:
  Scratch(std::span<std::byte> workspace, const char* call, std::int64_t fixed_elems)
      : base_(reinterpret_cast<float*>(workspace.data())) {
    const auto fixed_bytes = static_cast<std::size_t>(fixed_elems) * sizeof(float);
    if (workspace.size() < fixed_bytes)
      throw MemoryError(
          fmt::format("{}: workspace of {} bytes: needs {} and the products' scratch: "
                      "size it with workspace_bytes",
                      call, workspace.size(), fixed_bytes));
    gemm_ = workspace.subspan(fixed_bytes);
  }
  float* operator[](std::int64_t offset) const { return base_ + offset; }
  std::span<std::byte> gemm() const { return gemm_; }

 private:
  float* base_;
  std::span<std::byte> gemm_;
};

// The head's products run over pieces of the vocabulary, so that communication progresses between.
constexpr std::int64_t vocab_piece = 8192;

template<class F>
void for_each_vocab_piece(std::int64_t vocab, F f) {
  for (std::int64_t v = 0; v < vocab; v += vocab_piece) f(v, std::min(vocab_piece, vocab - v));
}

// One call's view of dims, buffers and layouts.
struct Call {
  Call(const Context& c, const Gpt2Dims& d, const Gpt2Buffers& buffers)
      : ctx(c), dims(d), b(buffers), rows(d.rows()), h(d.hidden) {}
  float* saved(std::int64_t offset) const { return b.saved + offset; }

  const Context& ctx;
  const Gpt2Dims& dims;
  const Gpt2Buffers& b;
  const std::int64_t rows, h;
};

struct Tensors {
  const float *weight, *bias;
};
struct Gradients {
  float *weight, *bias;
  bool accumulate;
};

void qkv_forward(const Call& c, Tensors t) {
  const BlockSaved s = block_saved(c.dims);
  const Scratch scratch(c.b.workspace, "qkv", block_forward_workspace(c.dims, 0).gemm);
  const Linear linear(c.ctx, c.rows, scratch.gemm());
  linear.forward(c.h, 3 * c.h, c.saved(s.norm1), t.weight, t.bias, c.saved(s.qkv));
}

void attn_proj_forward(const Call& c, Tensors t) {
  const BlockSaved s = block_saved(c.dims);
  const BlockForwardWorkspace w = block_forward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "attn_proj", w.gemm);
  const Linear linear(c.ctx, c.rows, scratch.gemm());
  attention_forward(c.ctx, c.dims, c.saved(s.qkv), c.saved(s.attention), c.saved(s.logsumexp),
                    scratch[w.scores], scratch.gemm());
  linear.forward(c.h, c.h, c.saved(s.attention), t.weight, nullptr, c.saved(s.x_mid));
  bias_residual(c.ctx, c.rows, c.h, c.b.x_in, t.bias, c.saved(s.x_mid));
}

void fc_forward(const Call& c, Tensors t) {
  const BlockSaved s = block_saved(c.dims);
  const Scratch scratch(c.b.workspace, "fc", block_forward_workspace(c.dims, 0).gemm);
  const Linear linear(c.ctx, c.rows, scratch.gemm());
  linear.forward(c.h, 4 * c.h, c.saved(s.norm2), t.weight, t.bias, c.saved(s.fc));
}

void mlp_proj_forward(const Call& c, Tensors t) {
  const BlockSaved s = block_saved(c.dims);
  const BlockForwardWorkspace w = block_forward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "mlp_proj", w.gemm);
  const Linear linear(c.ctx, c.rows, scratch.gemm());
  float* act = scratch[w.act];
  gelu_forward(c.ctx, c.rows * 4 * c.h, c.saved(s.fc), act);
  linear.forward(4 * c.h, c.h, act, t.weight, nullptr, c.b.x_out);
  bias_residual(c.ctx, c.rows, c.h, c.saved(s.x_mid), t.bias, c.b.x_out);
}

void head_forward(const Call& c, const float* weight) {
  const std::int64_t vocab = c.dims.vocab;
  const HeadSaved s = head_saved(c.dims);
  const Scratch scratch(c.b.workspace, "head", head_forward_workspace(c.dims, 0).gemm);
  const Linear linear(c.ctx, c.rows, scratch.gemm());
  float* logits = c.saved(s.dlogits);
  for_each_vocab_piece(vocab, [&](std::int64_t v, std::int64_t count) {
    linear.forward(c.h, count, c.saved(s.norm), weight + v * c.h, nullptr, logits + v, vocab);
  });
  cross_entropy(c.ctx, c.dims, c.b.tokens, logits, c.saved(s.row_loss),
                c.b.grad_scale / static_cast<float>(c.rows));
  mean_loss(c.ctx, c.rows, c.saved(s.row_loss), c.b.loss, c.b.first_loss);
}

void head_backward(const Call& c, const float* weight, float* dweight, bool accumulate) {
  const std::int64_t vocab = c.dims.vocab;
  const HeadSaved s = head_saved(c.dims);
  const HeadBackwardWorkspace w = head_backward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "head", w.gemm);
  const Linear linear(c.ctx, c.rows, scratch.gemm());
  for_each_vocab_piece(vocab, [&](std::int64_t v, std::int64_t count) {
    const float* dlogits = c.saved(s.dlogits) + v;
    linear.backward_weight(c.h, count, dlogits, c.saved(s.norm), dweight + v * c.h, accumulate,
                           vocab);
    linear.backward_input(c.h, count, dlogits, weight + v * c.h, scratch[w.dnorm], v > 0, vocab);
  });
}

void final_norm_backward(const Call& c, Tensors t, Gradients g) {
  const HeadSaved s = head_saved(c.dims);
  const HeadBackwardWorkspace w = head_backward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "final_norm", w.gemm);
  const float* dnorm = scratch[w.dnorm];
  layer_norm_backward_params(c.ctx, c.rows, c.h, c.b.x_in, c.saved(s.ln_mean), c.saved(s.ln_rstd),
                             dnorm, g.weight, g.bias, g.accumulate);
  layer_norm_input_gradient(c.ctx, c.rows, c.h, c.b.x_in, c.saved(s.ln_mean), c.saved(s.ln_rstd),
                            t.weight, dnorm, c.b.dx);
}

// x_out = x_mid + proj(gelu(fc(ln_2(x_mid)))): dx -> dwide, the gradient of fc's output.
void mlp_proj_backward(const Call& c, Tensors t, Gradients g) {
  const BlockSaved s = block_saved(c.dims);
  const BlockBackwardWorkspace w = block_backward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "mlp_proj", w.gemm);
  const Linear linear(c.ctx, c.rows, scratch.gemm());
  float *dwide = scratch[w.dwide], *act = scratch[w.act];
  linear.backward_input(4 * c.h, c.h, c.b.dx, t.weight, dwide);
  gelu_backward(c.ctx, c.rows * 4 * c.h, c.saved(s.fc), act, dwide);
  linear.backward_weight(4 * c.h, c.h, c.b.dx, act, g.weight, g.accumulate);
  bias_backward(c.ctx, c.rows, c.h, c.b.dx, g.bias, g.accumulate);
}

// dwide -> dnarrow, the gradient of the norm's output. `out`: columns of dwide.
void after_norm_backward(const Call& c, Tensors t, Gradients g, std::int64_t out,
                         const float* norm) {
  const BlockBackwardWorkspace w = block_backward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "fc or qkv", w.gemm);
  const Linear linear(c.ctx, c.rows, scratch.gemm());
  const float* dwide = scratch[w.dwide];
  linear.backward_input(c.h, out, dwide, t.weight, scratch[w.dnarrow]);
  linear.backward_weight(c.h, out, dwide, norm, g.weight, g.accumulate);
  bias_backward(c.ctx, c.rows, out, dwide, g.bias, g.accumulate);
}

// dnarrow -> added to dx, through a block's norm of `x`.
void block_norm_backward(const Call& c, Tensors t, Gradients g, const float* x, const float* mean,
                         const float* rstd) {
  const BlockBackwardWorkspace w = block_backward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "norm", w.gemm);
  const float* dnarrow = scratch[w.dnarrow];
  layer_norm_backward_rows(c.ctx, c.rows, c.h, x, mean, rstd, t.weight, dnarrow, c.b.dx);
  layer_norm_backward_params(c.ctx, c.rows, c.h, x, mean, rstd, dnarrow, g.weight, g.bias,
                             g.accumulate);
}

// x_mid = x_in + proj(attention(qkv(ln_1(x_in)))): dx -> dwide, the gradient of qkv's output.
void attn_proj_backward(const Call& c, Tensors t, Gradients g) {
  const BlockSaved s = block_saved(c.dims);
  const BlockBackwardWorkspace w = block_backward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "attn_proj", w.gemm);
  const Linear linear(c.ctx, c.rows, scratch.gemm());
  float* dnarrow = scratch[w.dnarrow];
  linear.backward_input(c.h, c.h, c.b.dx, t.weight, dnarrow);
  linear.backward_weight(c.h, c.h, c.b.dx, c.saved(s.attention), g.weight, g.accumulate);
  bias_backward(c.ctx, c.rows, c.h, c.b.dx, g.bias, g.accumulate);
  attention_backward(c.ctx, c.dims, c.saved(s.qkv), c.saved(s.attention), c.saved(s.logsumexp),
                     dnarrow, scratch[w.dwide], scratch[w.scores], scratch[w.dscores],
                     scratch[w.delta], scratch.gemm());
}

[[noreturn]] void no_code(Role role) {
  throw PlanError("gpt2: a module of role " + std::string(to_string(role)) + " computes nothing");
}

}  // namespace

void gpt2_forward(const Context& ctx, const Gpt2Dims& dims, Role role, const float* const* params,
                  const Gpt2Buffers& buffers) {
  const Call c(ctx, dims, buffers);
  switch (role) {
    case Role::token_embedding:
      return token_embedding_forward(ctx, dims, buffers.tokens, params[0], buffers.x_out);
    case Role::position_embedding:
      return position_embedding_forward(ctx, dims, params[0], buffers.x_out);
    case Role::head: return head_forward(c, params[0]);
    default: break;
  }
  const Tensors t{params[0], params[1]};
  const BlockSaved s = block_saved(dims);
  const HeadSaved hs = head_saved(dims);
  switch (role) {
    case Role::norm1:
      return layer_norm_forward(ctx, c.rows, c.h, buffers.x_in, t.weight, t.bias, c.saved(s.norm1),
                                c.saved(s.ln1_mean), c.saved(s.ln1_rstd));
    case Role::qkv: return qkv_forward(c, t);
    case Role::attn_proj: return attn_proj_forward(c, t);
    case Role::norm2:
      return layer_norm_forward(ctx, c.rows, c.h, c.saved(s.x_mid), t.weight, t.bias,
                                c.saved(s.norm2), c.saved(s.ln2_mean), c.saved(s.ln2_rstd));
    case Role::fc: return fc_forward(c, t);
    case Role::mlp_proj: return mlp_proj_forward(c, t);
    case Role::final_norm:
      return layer_norm_forward(ctx, c.rows, c.h, buffers.x_in, t.weight, t.bias, c.saved(hs.norm),
                                c.saved(hs.ln_mean), c.saved(hs.ln_rstd));
    default: no_code(role);
  }
}

void gpt2_backward(const Context& ctx, const Gpt2Dims& dims, Role role, const float* const* params,
                   float* const* grads, bool accumulate, const Gpt2Buffers& buffers) {
  const Call c(ctx, dims, buffers);
  switch (role) {
    case Role::token_embedding:
      return token_embedding_backward(ctx, dims, buffers.tokens, buffers.dx, grads[0], accumulate);
    case Role::position_embedding:
      return position_embedding_backward(ctx, dims, buffers.dx, grads[0], accumulate);
    case Role::head: return head_backward(c, params[0], grads[0], accumulate);
    default: break;
  }
  const Tensors t{params[0], params[1]};
  const Gradients g{grads[0], grads[1], accumulate};
  const BlockSaved s = block_saved(dims);
  switch (role) {
    case Role::final_norm: return final_norm_backward(c, t, g);
    case Role::mlp_proj: return mlp_proj_backward(c, t, g);
    case Role::fc: return after_norm_backward(c, t, g, 4 * c.h, c.saved(s.norm2));
    case Role::norm2:
      return block_norm_backward(c, t, g, c.saved(s.x_mid), c.saved(s.ln2_mean),
                                 c.saved(s.ln2_rstd));
    case Role::attn_proj: return attn_proj_backward(c, t, g);
    case Role::qkv: return after_norm_backward(c, t, g, 3 * c.h, c.saved(s.norm1));
    case Role::norm1:
      return block_norm_backward(c, t, g, buffers.x_in, c.saved(s.ln1_mean), c.saved(s.ln1_rstd));
    default: no_code(role);
  }
}

}  // namespace shardmark
