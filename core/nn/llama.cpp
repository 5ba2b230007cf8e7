// SPDX-License-Identifier: Apache-2.0
#include <core/nn/attention.hpp>
#include <core/nn/elementwise.hpp>
#include <core/nn/llama.hpp>
#include <core/nn/rms_norm.hpp>
#include <core/nn/rotary.hpp>
#include <core/plan/llama_sizes.hpp>

namespace shardmark {
namespace {

// A projection: saved[x] -> saved[y], columns `out`.
void product_forward(const ModuleCall& c, Tensors t, std::int64_t x, std::int64_t out,
                     std::int64_t y) {
  const Scratch scratch(c.b.workspace, "projection", llama_block_forward_workspace(c.dims, 0).gemm);
  c.linear(scratch).forward(c.h, out, c.saved(x), t.weight, nullptr, c.saved(y));
}

void attn_proj_forward(const ModuleCall& c, Tensors t) {
  const LlamaBlockSaved s = llama_block_saved(c.dims);
  const LlamaBlockForwardWorkspace w = llama_block_forward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "attn_proj", w.gemm);
  rotary_forward(c.ctx, c.dims, c.saved(s.q), c.saved(s.k));
  attention_forward(c.ctx, c.dims, {c.saved(s.q), c.saved(s.k), c.saved(s.v), c.h, c.dims.kv_dim()},
                    c.saved(s.attention), c.saved(s.logsumexp), scratch[w.scores], scratch.gemm());
  c.linear(scratch).forward(c.h, c.h, c.saved(s.attention), t.weight, nullptr, c.saved(s.x_mid));
  residual(c.ctx, c.rows * c.h, c.b.x_in, c.saved(s.x_mid));
}

void down_forward(const ModuleCall& c, Tensors t) {
  const LlamaBlockSaved s = llama_block_saved(c.dims);
  const LlamaBlockForwardWorkspace w = llama_block_forward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "mlp_proj", w.gemm);
  const std::int64_t ffn = c.dims.ffn;
  swiglu_forward(c.ctx, c.rows * ffn, c.saved(s.gate), c.saved(s.up), scratch[w.act]);
  c.linear(scratch).forward(ffn, c.h, scratch[w.act], t.weight, nullptr, c.b.x_out);
  residual(c.ctx, c.rows * c.h, c.saved(s.x_mid), c.b.x_out);
}

void final_norm_backward(const ModuleCall& c, Tensors t, Gradients g) {
  const HeadSaved s = head_saved(c.dims);
  const HeadBackwardWorkspace w = head_backward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "final_norm", w.gemm);
  const float* dnorm = scratch[w.dnorm];
  rms_norm_backward_params(c.ctx, c.rows, c.h, c.b.x_in, c.saved(s.norm_rstd), dnorm, g.weight,
                           g.accumulate);
  rms_norm_input_gradient(c.ctx, c.rows, c.h, c.b.x_in, c.saved(s.norm_rstd), t.weight, dnorm,
                          c.b.dx, false);
}

// x_out = x_mid + down(silu(gate) * up): dx -> dgate and dup.
void down_backward(const ModuleCall& c, Tensors t, Gradients g) {
  const LlamaBlockSaved s = llama_block_saved(c.dims);
  const LlamaBlockBackwardWorkspace w = llama_block_backward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "mlp_proj", w.gemm);
  const Linear linear = c.linear(scratch);
  const std::int64_t ffn = c.dims.ffn;
  float *dgate = scratch[w.dgate], *act = scratch[w.act];
  linear.backward_input(ffn, c.h, c.b.dx, t.weight, dgate);
  swiglu_backward(c.ctx, c.rows * ffn, c.saved(s.gate), c.saved(s.up), act, dgate, scratch[w.dup]);
  linear.backward_weight(ffn, c.h, c.b.dx, act, g.weight, g.accumulate);
}

// A projection of a norm's output: workspace[dy], columns `out`, -> dnarrow, that output's
// gradient, to which the projections that share it add; the one that runs first overwrites.
void product_backward(const ModuleCall& c, Tensors t, Gradients g, std::int64_t dy,
                      std::int64_t out, std::int64_t norm, bool first) {
  const LlamaBlockBackwardWorkspace w = llama_block_backward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "projection", w.gemm);
  const Linear linear = c.linear(scratch);
  linear.backward_input(c.h, out, scratch[dy], t.weight, scratch[w.dnarrow], !first);
  linear.backward_weight(c.h, out, scratch[dy], c.saved(norm), g.weight, g.accumulate);
}

// x_mid = x_in + o(attention(rotated q and k, v)): dx -> dq, dk, dv.
void attn_proj_backward(const ModuleCall& c, Tensors t, Gradients g) {
  const LlamaBlockSaved s = llama_block_saved(c.dims);
  const LlamaBlockBackwardWorkspace w = llama_block_backward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "attn_proj", w.gemm);
  const Linear linear = c.linear(scratch);
  const std::int64_t kv = c.dims.kv_dim();
  float* dnarrow = scratch[w.dnarrow];
  linear.backward_input(c.h, c.h, c.b.dx, t.weight, dnarrow);
  linear.backward_weight(c.h, c.h, c.b.dx, c.saved(s.attention), g.weight, g.accumulate);
  attention_backward(c.ctx, c.dims, {c.saved(s.q), c.saved(s.k), c.saved(s.v), c.h, kv},
                     c.saved(s.attention), c.saved(s.logsumexp), dnarrow,
                     {scratch[w.dq], scratch[w.dk], scratch[w.dv], c.h, kv}, scratch[w.scores],
                     scratch[w.dscores], scratch[w.delta], scratch.gemm());
  rotary_backward(c.ctx, c.dims, scratch[w.dq], scratch[w.dk]);
}

// dnarrow -> added to dx, through a block's norm of `x`.
void block_norm_backward(const ModuleCall& c, Tensors t, Gradients g, const float* x,
                         const float* rstd) {
  const LlamaBlockBackwardWorkspace w = llama_block_backward_workspace(c.dims, 0);
  const Scratch scratch(c.b.workspace, "norm", w.gemm);
  const float* dnarrow = scratch[w.dnarrow];
  rms_norm_input_gradient(c.ctx, c.rows, c.h, x, rstd, t.weight, dnarrow, c.b.dx, true);
  rms_norm_backward_params(c.ctx, c.rows, c.h, x, rstd, dnarrow, g.weight, g.accumulate);
}

}  // namespace

void llama_forward(const ModuleCall& c, Role role, Tensors t) {
  const LlamaBlockSaved s = llama_block_saved(c.dims);
  const HeadSaved hs = head_saved(c.dims);
  switch (role) {
    case Role::norm1:
      return rms_norm_forward(c.ctx, c.rows, c.h, c.b.x_in, t.weight, c.saved(s.norm1),
                              c.saved(s.norm1_rstd));
    case Role::q: return product_forward(c, t, s.norm1, c.h, s.q);
    case Role::k: return product_forward(c, t, s.norm1, c.dims.kv_dim(), s.k);
    case Role::v: return product_forward(c, t, s.norm1, c.dims.kv_dim(), s.v);
    case Role::attn_proj: return attn_proj_forward(c, t);
    case Role::norm2:
      return rms_norm_forward(c.ctx, c.rows, c.h, c.saved(s.x_mid), t.weight, c.saved(s.norm2),
                              c.saved(s.norm2_rstd));
    case Role::gate: return product_forward(c, t, s.norm2, c.dims.ffn, s.gate);
    case Role::up: return product_forward(c, t, s.norm2, c.dims.ffn, s.up);
    case Role::mlp_proj: return down_forward(c, t);
    case Role::final_norm:
      return rms_norm_forward(c.ctx, c.rows, c.h, c.b.x_in, t.weight, c.saved(hs.norm),
                              c.saved(hs.norm_rstd));
    default: no_code(c.dims.family, role);
  }
}

void llama_backward(const ModuleCall& c, Role role, Tensors t, Gradients g) {
  const LlamaBlockSaved s = llama_block_saved(c.dims);
  const LlamaBlockBackwardWorkspace w = llama_block_backward_workspace(c.dims, 0);
  const std::int64_t kv = c.dims.kv_dim();
  switch (role) {
    case Role::final_norm: return final_norm_backward(c, t, g);
    case Role::mlp_proj: return down_backward(c, t, g);
    case Role::up: return product_backward(c, t, g, w.dup, c.dims.ffn, s.norm2, true);
    case Role::gate: return product_backward(c, t, g, w.dgate, c.dims.ffn, s.norm2, false);
    case Role::norm2: return block_norm_backward(c, t, g, c.saved(s.x_mid), c.saved(s.norm2_rstd));
    case Role::attn_proj: return attn_proj_backward(c, t, g);
    case Role::v: return product_backward(c, t, g, w.dv, kv, s.norm1, true);
    case Role::k: return product_backward(c, t, g, w.dk, kv, s.norm1, false);
    case Role::q: return product_backward(c, t, g, w.dq, c.h, s.norm1, false);
    case Role::norm1: return block_norm_backward(c, t, g, c.b.x_in, c.saved(s.norm1_rstd));
    default: no_code(c.dims.family, role);
  }
}

}  // namespace shardmark
