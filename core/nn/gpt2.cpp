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

}  // namespace

void embed_forward(const Context& ctx, const Gpt2Dims& dims, const std::int32_t* tokens,
                   const float* param, float* x_out) {
  const EmbedParams p = embed_params(dims);
  embedding_forward(ctx, dims, tokens, param + p.wte, param + p.wpe, x_out);
}

void embed_backward(const Context& ctx, const Gpt2Dims& dims, const std::int32_t* tokens,
                    const float* dx, float* grad, bool accumulate, bool accumulate_wte) {
  const EmbedParams p = embed_params(dims);
  embedding_backward(ctx, dims, tokens, dx, grad + p.wte, grad + p.wpe, accumulate_wte, accumulate);
}

void block_forward(const Context& ctx, const Gpt2Dims& dims, const float* param, const float* x_in,
                   float* x_out, float* saved, std::span<std::byte> workspace) {
  const std::int64_t rows = dims.rows(), h = dims.hidden;
  const BlockParams p = block_params(dims);
  const BlockSaved s = block_saved(dims);
  const BlockForwardWorkspace w = block_forward_workspace(dims, 0);
  const Scratch scratch(workspace, "block_forward", w.gemm);
  const Linear linear(ctx, rows, scratch.gemm());
  float *norm = scratch[w.norm], *act = scratch[w.act];

  layer_norm_forward(ctx, rows, h, x_in, param + p.ln1_weight, param + p.ln1_bias, norm,
                     saved + s.ln1_mean, saved + s.ln1_rstd);
  linear.forward(h, 3 * h, norm, param + p.qkv_weight, param + p.qkv_bias, saved + s.qkv);
  attention_forward(ctx, dims, saved + s.qkv, saved + s.attention, saved + s.logsumexp,
                    scratch[w.scores], scratch.gemm());
  linear.forward(h, h, saved + s.attention, param + p.attn_proj_weight, nullptr, saved + s.x_mid);
  residual_layer_norm_forward(ctx, rows, h, x_in, param + p.attn_proj_bias, saved + s.x_mid,
                              param + p.ln2_weight, param + p.ln2_bias, norm, saved + s.ln2_mean,
                              saved + s.ln2_rstd);
  linear.forward(h, 4 * h, norm, param + p.fc_weight, param + p.fc_bias, saved + s.fc);
  gelu_forward(ctx, rows * 4 * h, saved + s.fc, act);
  linear.forward(4 * h, h, act, param + p.mlp_proj_weight, nullptr, x_out);
  bias_residual(ctx, rows, h, saved + s.x_mid, param + p.mlp_proj_bias, x_out);
}

void block_backward(const Context& ctx, const Gpt2Dims& dims, const float* param, const float* x_in,
                    const float* saved, float* dx, float* grad, bool accumulate,
                    std::span<std::byte> workspace) {
  const std::int64_t rows = dims.rows(), h = dims.hidden;
  const BlockParams p = block_params(dims);
  const BlockSaved s = block_saved(dims);
  const BlockBackwardWorkspace w = block_backward_workspace(dims, 0);
  const Scratch scratch(workspace, "block_backward", w.gemm);
  const Linear linear(ctx, rows, scratch.gemm());
  float *dwide = scratch[w.dwide], *act = scratch[w.act];
  float *dnarrow = scratch[w.dnarrow], *norm = scratch[w.norm];

  // x_out = x_mid + proj(gelu(fc(ln_2(x_mid)))); `act` is dead before `dnarrow` and `norm` are
  // written.
  linear.backward_input(4 * h, h, dx, param + p.mlp_proj_weight, dwide);
  gelu_backward(ctx, rows * 4 * h, saved + s.fc, act, dwide);
  linear.backward_weight(4 * h, h, dx, act, grad + p.mlp_proj_weight, accumulate);
  bias_backward(ctx, rows, h, dx, grad + p.mlp_proj_bias, accumulate);
  linear.backward_input(h, 4 * h, dwide, param + p.fc_weight, dnarrow);
  layer_norm_backward_rows(ctx, rows, h, saved + s.x_mid, saved + s.ln2_mean, saved + s.ln2_rstd,
                           param + p.ln2_weight, param + p.ln2_bias, dnarrow, norm, dx);
  layer_norm_backward_params(ctx, rows, h, saved + s.x_mid, saved + s.ln2_mean, saved + s.ln2_rstd,
                             dnarrow, grad + p.ln2_weight, grad + p.ln2_bias, accumulate);
  linear.backward_weight(h, 4 * h, dwide, norm, grad + p.fc_weight, accumulate);
  bias_backward(ctx, rows, 4 * h, dwide, grad + p.fc_bias, accumulate);

  // x_mid = x_in + proj(attention(qkv(ln_1(x_in)))).
  linear.backward_input(h, h, dx, param + p.attn_proj_weight, dnarrow);
  linear.backward_weight(h, h, dx, saved + s.attention, grad + p.attn_proj_weight, accumulate);
  bias_backward(ctx, rows, h, dx, grad + p.attn_proj_bias, accumulate);
  attention_backward(ctx, dims, saved + s.qkv, saved + s.attention, saved + s.logsumexp, dnarrow,
                     dwide, scratch[w.scores], scratch[w.dscores], scratch[w.delta],
                     scratch.gemm());
  linear.backward_input(h, 3 * h, dwide, param + p.qkv_weight, dnarrow);
  layer_norm_backward_rows(ctx, rows, h, x_in, saved + s.ln1_mean, saved + s.ln1_rstd,
                           param + p.ln1_weight, param + p.ln1_bias, dnarrow, norm, dx);
  layer_norm_backward_params(ctx, rows, h, x_in, saved + s.ln1_mean, saved + s.ln1_rstd, dnarrow,
                             grad + p.ln1_weight, grad + p.ln1_bias, accumulate);
  linear.backward_weight(h, 3 * h, dwide, norm, grad + p.qkv_weight, accumulate);
  bias_backward(ctx, rows, 3 * h, dwide, grad + p.qkv_bias, accumulate);
}

void head_forward(const Context& ctx, const Gpt2Dims& dims, const float* param, const float* wte,
                  const std::int32_t* tokens, const float* x_in, float* saved, double* loss,
                  bool first, float grad_scale, std::span<std::byte> workspace) {
  const std::int64_t rows = dims.rows(), h = dims.hidden, vocab = dims.vocab;
  const HeadParams p = head_params(dims);
  const HeadSaved s = head_saved(dims);
  const Scratch scratch(workspace, "head_forward", head_forward_workspace(dims, 0).gemm);
  const Linear linear(ctx, rows, scratch.gemm());
  const float* weight = dims.tied_head ? wte : param + p.head_weight;
  float* logits = saved + s.dlogits;

  layer_norm_forward(ctx, rows, h, x_in, param + p.ln_weight, param + p.ln_bias, saved + s.norm,
                     saved + s.ln_mean, saved + s.ln_rstd);
  for_each_vocab_piece(vocab, [&](std::int64_t v, std::int64_t count) {
    linear.forward(h, count, saved + s.norm, weight + v * h, nullptr, logits + v, vocab);
  });
  cross_entropy(ctx, dims, tokens, logits, saved + s.row_loss,
                grad_scale / static_cast<float>(rows));
  mean_loss(ctx, rows, saved + s.row_loss, loss, first);
}

void head_backward(const Context& ctx, const Gpt2Dims& dims, const float* param, const float* wte,
                   const float* x_in, const float* saved, float* dx, float* grad, float* grad_wte,
                   bool accumulate, bool accumulate_wte, std::span<std::byte> workspace) {
  const std::int64_t rows = dims.rows(), h = dims.hidden, vocab = dims.vocab;
  const HeadParams p = head_params(dims);
  const HeadSaved s = head_saved(dims);
  const HeadBackwardWorkspace w = head_backward_workspace(dims, 0);
  const Scratch scratch(workspace, "head_backward", w.gemm);
  const Linear linear(ctx, rows, scratch.gemm());
  const float* weight = dims.tied_head ? wte : param + p.head_weight;
  float* dweight = dims.tied_head ? grad_wte : grad + p.head_weight;
  const bool add = dims.tied_head ? accumulate_wte : accumulate;
  float* dnorm = scratch[w.dnorm];

  for_each_vocab_piece(vocab, [&](std::int64_t v, std::int64_t count) {
    const float* dlogits = saved + s.dlogits + v;
    linear.backward_weight(h, count, dlogits, saved + s.norm, dweight + v * h, add, vocab);
    linear.backward_input(h, count, dlogits, weight + v * h, dnorm, v > 0, vocab);
  });
  layer_norm_backward_params(ctx, rows, h, x_in, saved + s.ln_mean, saved + s.ln_rstd, dnorm,
                             grad + p.ln_weight, grad + p.ln_bias, accumulate);
  layer_norm_input_gradient(ctx, rows, h, x_in, saved + s.ln_mean, saved + s.ln_rstd,
                            param + p.ln_weight, dnorm, dx);
}

}  // namespace shardmark
