// SPDX-License-Identifier: Apache-2.0
#include <core/nn/layers/attention.hpp>
#include <core/nn/layers/elementwise.hpp>
#include <core/nn/layers/embedding.hpp>
#include <core/nn/layers/layer_norm.hpp>
#include <core/nn/models/gpt2.hpp>
#include <core/plan/model/gpt2_sizes.hpp>

namespace shardmark {
namespace {

// The rows of qkv are q | k | v.
template<class S>
QueryKeyValue<S> parts_of(const ModuleCall& c, S qkv) {
  return {qkv, qkv.at(c.h), qkv.at(2 * c.h), 3 * c.h, 3 * c.h};
}

void qkv_forward(const ModuleCall& c, Tensors t) {
  const Gpt2BlockSaved s = gpt2_block_saved(c.dims);
  const Scratch scratch(c, "qkv", gpt2_block_forward_workspace(c.dims, 0).gemm);
  const Linear linear = scratch.linear();
  linear.forward(c.h, 3 * c.h, c.saved(s.norm1), t.weight, t.bias, c.saved(s.qkv));
}

void gpt2_attn_proj_forward(const ModuleCall& c, Tensors t) {
  const Gpt2BlockSaved s = gpt2_block_saved(c.dims);
  const Gpt2BlockForwardWorkspace w = gpt2_block_forward_workspace(c.dims, 0);
  const Scratch scratch(c, "attn_proj", w.gemm);
  const Linear linear = scratch.linear();
  attention_forward(c.ctx, c.dims, parts_of<ConstStored>(c, c.saved(s.qkv)), c.saved(s.attention),
                    c.saved_fp32(s.logsumexp), scratch.base(), w.attention, scratch.gemm());
  linear.forward(c.h, c.h, c.saved(s.attention), t.weight, nullptr, c.saved(s.x_mid));
  bias_residual(c.ctx, c.rows, c.h, c.x_in(), t.bias, c.saved(s.x_mid));
}

void fc_forward(const ModuleCall& c, Tensors t) {
  const Gpt2BlockSaved s = gpt2_block_saved(c.dims);
  const Scratch scratch(c, "fc", gpt2_block_forward_workspace(c.dims, 0).gemm);
  const Linear linear = scratch.linear();
  linear.forward(c.h, 4 * c.h, c.saved(s.norm2), t.weight, t.bias, c.saved(s.fc));
}

void mlp_proj_forward(const ModuleCall& c, Tensors t) {
  const Gpt2BlockSaved s = gpt2_block_saved(c.dims);
  const Gpt2BlockForwardWorkspace w = gpt2_block_forward_workspace(c.dims, 0);
  const Scratch scratch(c, "mlp_proj", w.gemm);
  const Linear linear = scratch.linear();
  const Stored act = scratch[w.act];
  gelu_forward(c.ctx, c.rows * 4 * c.h, c.saved(s.fc), act);
  linear.forward(4 * c.h, c.h, act, t.weight, nullptr, c.x_out());
  bias_residual(c.ctx, c.rows, c.h, c.saved(s.x_mid), t.bias, c.x_out());
}

void gpt2_final_norm_backward(const ModuleCall& c, Tensors t, Gradients g) {
  const HeadSaved s = head_saved(c.dims);
  const HeadBackwardWorkspace w = head_backward_workspace(c.dims, 0);
  const Scratch scratch(c, "final_norm", w.gemm);
  const float* dnorm = scratch.fp32(w.dnorm);
  layer_norm_backward_params(c.ctx, c.rows, c.h, c.x_in(), c.saved_fp32(s.norm_mean),
                             c.saved_fp32(s.norm_rstd), dnorm, g.weight, g.bias, g.accumulate);
  layer_norm_input_gradient(c.ctx, c.rows, c.h, c.x_in(), c.saved_fp32(s.norm_mean),
                            c.saved_fp32(s.norm_rstd), t.weight, dnorm, c.dx());
}

// x_out = x_mid + proj(gelu(fc(ln_2(x_mid)))): computes dwide, the gradient of fc's output, from
// dx.
void mlp_proj_backward(const ModuleCall& c, Tensors t, Gradients g) {
  const Gpt2BlockSaved s = gpt2_block_saved(c.dims);
  const Gpt2BlockBackwardWorkspace w = gpt2_block_backward_workspace(c.dims, 0);
  const Scratch scratch(c, "mlp_proj", w.gemm);
  const Linear linear = scratch.linear();
  const Stored dwide = scratch[w.dwide], act = scratch[w.act];
  linear.backward_input(4 * c.h, c.h, c.dx(), t.weight, dwide);
  gelu_backward(c.ctx, c.rows * 4 * c.h, c.saved(s.fc), act, dwide);
  linear.backward_weight(4 * c.h, c.h, c.dx(), act, g.weight, g.accumulate);
  bias_backward(c.ctx, c.rows, c.h, c.dx(), g.bias, g.accumulate);
}

// Computes dnarrow, the gradient of the norm's output, from dwide, whose rows have `out` columns.
void after_norm_backward(const ModuleCall& c, Tensors t, Gradients g, std::int64_t out,
                         ConstStored norm) {
  const Gpt2BlockBackwardWorkspace w = gpt2_block_backward_workspace(c.dims, 0);
  const Scratch scratch(c, "fc or qkv", w.gemm);
  const Linear linear = scratch.linear();
  const Stored dwide = scratch[w.dwide];
  linear.backward_input(c.h, out, dwide, t.weight, scratch[w.dnarrow]);
  linear.backward_weight(c.h, out, dwide, norm, g.weight, g.accumulate);
  bias_backward(c.ctx, c.rows, out, dwide, g.bias, g.accumulate);
}

// Adds the gradient of `x`, the input of a block's norm, to dx, from dnarrow.
void block_norm_backward(const ModuleCall& c, Tensors t, Gradients g, ConstStored x,
                         const float* mean, const float* rstd) {
  const Gpt2BlockBackwardWorkspace w = gpt2_block_backward_workspace(c.dims, 0);
  const Scratch scratch(c, "norm", w.gemm);
  const Stored dnarrow = scratch[w.dnarrow];
  layer_norm_backward_rows(c.ctx, c.rows, c.h, x, mean, rstd, t.weight, dnarrow, c.dx());
  layer_norm_backward_params(c.ctx, c.rows, c.h, x, mean, rstd, dnarrow, g.weight, g.bias,
                             g.accumulate);
}

// x_mid = x_in + proj(attention(qkv(ln_1(x_in)))): computes dwide, the gradient of qkv's output,
// from dx.
void gpt2_attn_proj_backward(const ModuleCall& c, Tensors t, Gradients g) {
  const Gpt2BlockSaved s = gpt2_block_saved(c.dims);
  const Gpt2BlockBackwardWorkspace w = gpt2_block_backward_workspace(c.dims, 0);
  const Scratch scratch(c, "attn_proj", w.gemm);
  const Linear linear = scratch.linear();
  const Stored dnarrow = scratch[w.dnarrow];
  linear.backward_input(c.h, c.h, c.dx(), t.weight, dnarrow);
  linear.backward_weight(c.h, c.h, c.dx(), c.saved(s.attention), g.weight, g.accumulate);
  bias_backward(c.ctx, c.rows, c.h, c.dx(), g.bias, g.accumulate);
  attention_backward(c.ctx, c.dims, parts_of<ConstStored>(c, c.saved(s.qkv)), c.saved(s.attention),
                     c.saved_fp32(s.logsumexp), dnarrow, parts_of(c, scratch[w.dwide]),
                     scratch.base(), w.attention, scratch.gemm());
}

}  // namespace

void gpt2_forward(const ModuleCall& c, Role role, Tensors t) {
  const Gpt2BlockSaved s = gpt2_block_saved(c.dims);
  const HeadSaved hs = head_saved(c.dims);
  switch (role) {
    case Role::position_embedding:
      return position_embedding_forward(c.ctx, c.dims, t.weight, c.x_out());
    case Role::norm1:
      return layer_norm_forward(c.ctx, c.rows, c.h, c.x_in(), t.weight, t.bias, c.saved(s.norm1),
                                c.saved_fp32(s.ln1_mean), c.saved_fp32(s.ln1_rstd));
    case Role::qkv: return qkv_forward(c, t);
    case Role::attn_proj: return gpt2_attn_proj_forward(c, t);
    case Role::norm2:
      return layer_norm_forward(c.ctx, c.rows, c.h, c.saved(s.x_mid), t.weight, t.bias,
                                c.saved(s.norm2), c.saved_fp32(s.ln2_mean),
                                c.saved_fp32(s.ln2_rstd));
    case Role::fc: return fc_forward(c, t);
    case Role::mlp_proj: return mlp_proj_forward(c, t);
    case Role::final_norm:
      return layer_norm_forward(c.ctx, c.rows, c.h, c.x_in(), t.weight, t.bias, c.saved(hs.norm),
                                c.saved_fp32(hs.norm_mean), c.saved_fp32(hs.norm_rstd));
    default: unknown_role(c.dims.family, role);
  }
}

void gpt2_backward(const ModuleCall& c, Role role, Tensors t, Gradients g) {
  const Gpt2BlockSaved s = gpt2_block_saved(c.dims);
  switch (role) {
    case Role::position_embedding:
      return position_embedding_backward(c.ctx, c.dims, c.dx(), g.weight, g.accumulate);
    case Role::final_norm: return gpt2_final_norm_backward(c, t, g);
    case Role::mlp_proj: return mlp_proj_backward(c, t, g);
    case Role::fc: return after_norm_backward(c, t, g, 4 * c.h, c.saved(s.norm2));
    case Role::norm2:
      return block_norm_backward(c, t, g, c.saved(s.x_mid), c.saved_fp32(s.ln2_mean),
                                 c.saved_fp32(s.ln2_rstd));
    case Role::attn_proj: return gpt2_attn_proj_backward(c, t, g);
    case Role::qkv: return after_norm_backward(c, t, g, 3 * c.h, c.saved(s.norm1));
    case Role::norm1:
      return block_norm_backward(c, t, g, c.x_in(), c.saved_fp32(s.ln1_mean),
                                 c.saved_fp32(s.ln1_rstd));
    default: unknown_role(c.dims.family, role);
  }
}

}  // namespace shardmark
