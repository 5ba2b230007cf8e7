// SPDX-License-Identifier: Apache-2.0
#include <core/nn/layers/attention.hpp>
#include <core/nn/layers/elementwise.hpp>
#include <core/nn/layers/rms_norm.hpp>
#include <core/nn/layers/rotary.hpp>
#include <core/nn/models/llama.hpp>
#include <core/plan/model/llama_sizes.hpp>

namespace shardmark {
namespace {

// A projection from saved[x] to saved[y], which has `out` columns, with a bias if the module has
// one.
void product_forward(const ModuleCall& c, Tensors t, std::int64_t x, std::int64_t out,
                     std::int64_t y) {
  const Scratch scratch(c, "projection", llama_block_forward_workspace(c.dims, 0).gemm);
  scratch.linear().forward(c.h, out, c.saved(x), t.weight, t.bias, c.saved(y));
}

void llama_attn_proj_forward(const ModuleCall& c, Tensors t) {
  const LlamaBlockSaved s = llama_block_saved(c.dims);
  const LlamaBlockForwardWorkspace w = llama_block_forward_workspace(c.dims, 0);
  const Scratch scratch(c, "attn_proj", w.gemm);
  rotary_forward(c.ctx, c.dims, c.saved(s.q), c.saved(s.k));
  attention_forward(c.ctx, c.dims, {c.saved(s.q), c.saved(s.k), c.saved(s.v), c.h, c.dims.kv_dim()},
                    c.saved(s.attention), c.saved_fp32(s.logsumexp), scratch.base(), w.attention,
                    scratch.gemm());
  scratch.linear().forward(c.h, c.h, c.saved(s.attention), t.weight, nullptr, c.saved(s.x_mid));
  residual(c.ctx, c.rows * c.h, c.x_in(), c.saved(s.x_mid));
}

void down_forward(const ModuleCall& c, Tensors t) {
  const LlamaBlockSaved s = llama_block_saved(c.dims);
  const LlamaBlockForwardWorkspace w = llama_block_forward_workspace(c.dims, 0);
  const Scratch scratch(c, "mlp_proj", w.gemm);
  const std::int64_t ffn = c.dims.ffn;
  swiglu_forward(c.ctx, c.rows * ffn, c.saved(s.gate), c.saved(s.up), scratch[w.act]);
  scratch.linear().forward(ffn, c.h, scratch[w.act], t.weight, nullptr, c.x_out());
  residual(c.ctx, c.rows * c.h, c.saved(s.x_mid), c.x_out());
}

void llama_final_norm_backward(const ModuleCall& c, Tensors t, Gradients g) {
  const HeadSaved s = head_saved(c.dims);
  const HeadBackwardWorkspace w = head_backward_workspace(c.dims, 0);
  const Scratch scratch(c, "final_norm", w.gemm);
  const float* dnorm = scratch.fp32(w.dnorm);
  rms_norm_backward_params(c.ctx, c.rows, c.h, c.x_in(), c.saved_fp32(s.norm_rstd), dnorm, g.weight,
                           g.accumulate);
  rms_norm_input_gradient(c.ctx, c.rows, c.h, c.x_in(), c.saved_fp32(s.norm_rstd), t.weight, dnorm,
                          c.dx(), false);
}

// x_out = x_mid + down(silu(gate) * up): computes dgate and dup from dx.
void down_backward(const ModuleCall& c, Tensors t, Gradients g) {
  const LlamaBlockSaved s = llama_block_saved(c.dims);
  const LlamaBlockBackwardWorkspace w = llama_block_backward_workspace(c.dims, 0);
  const Scratch scratch(c, "mlp_proj", w.gemm);
  const Linear linear = scratch.linear();
  const std::int64_t ffn = c.dims.ffn;
  const Stored dgate = scratch[w.dgate], act = scratch[w.act];
  linear.backward_input(ffn, c.h, c.dx(), t.weight, dgate);
  swiglu_backward(c.ctx, c.rows * ffn, c.saved(s.gate), c.saved(s.up), act, dgate, scratch[w.dup]);
  linear.backward_weight(ffn, c.h, c.dx(), act, g.weight, g.accumulate);
}

// Backward of a projection of a norm's output: computes dnorm, the gradient of that output, from
// workspace[dy], which has `out` columns. Projections that share the norm add to dnorm; the one
// that runs first overwrites it.
void product_backward(const ModuleCall& c, Tensors t, Gradients g, std::int64_t dy,
                      std::int64_t out, std::int64_t norm, bool first) {
  const LlamaBlockBackwardWorkspace w = llama_block_backward_workspace(c.dims, 0);
  const Scratch scratch(c, "projection", w.gemm);
  const Linear linear = scratch.linear();
  linear.backward_input(c.h, out, scratch[dy], t.weight, scratch.fp32(w.dnorm), !first);
  linear.backward_weight(c.h, out, scratch[dy], c.saved(norm), g.weight, g.accumulate);
  if (t.bias.data != nullptr) bias_backward(c.ctx, c.rows, out, scratch[dy], g.bias, g.accumulate);
}

// x_mid = x_in + o(attention(rotated q and k, v)): computes dq, dk and dv from dx.
void llama_attn_proj_backward(const ModuleCall& c, Tensors t, Gradients g) {
  const LlamaBlockSaved s = llama_block_saved(c.dims);
  const LlamaBlockBackwardWorkspace w = llama_block_backward_workspace(c.dims, 0);
  const Scratch scratch(c, "attn_proj", w.gemm);
  const Linear linear = scratch.linear();
  const std::int64_t kv = c.dims.kv_dim();
  const Stored dattention = scratch[w.dattention];
  linear.backward_input(c.h, c.h, c.dx(), t.weight, dattention);
  linear.backward_weight(c.h, c.h, c.dx(), c.saved(s.attention), g.weight, g.accumulate);
  attention_backward(c.ctx, c.dims, {c.saved(s.q), c.saved(s.k), c.saved(s.v), c.h, kv},
                     c.saved(s.attention), c.saved_fp32(s.logsumexp), dattention,
                     {scratch[w.dq], scratch[w.dk], scratch[w.dv], c.h, kv}, scratch.base(),
                     w.attention, scratch.gemm());
  rotary_backward(c.ctx, c.dims, scratch[w.dq], scratch[w.dk]);
}

// Adds the gradient of `x`, the input of a block's norm, to dx, from dnorm.
void block_norm_backward(const ModuleCall& c, Tensors t, Gradients g, ConstStored x,
                         const float* rstd) {
  const LlamaBlockBackwardWorkspace w = llama_block_backward_workspace(c.dims, 0);
  const Scratch scratch(c, "norm", w.gemm);
  const float* dnorm = scratch.fp32(w.dnorm);
  rms_norm_input_gradient(c.ctx, c.rows, c.h, x, rstd, t.weight, dnorm, c.dx(), true);
  rms_norm_backward_params(c.ctx, c.rows, c.h, x, rstd, dnorm, g.weight, g.accumulate);
}

}  // namespace

void llama_forward(const ModuleCall& c, Role role, Tensors t) {
  const LlamaBlockSaved s = llama_block_saved(c.dims);
  const HeadSaved hs = head_saved(c.dims);
  switch (role) {
    case Role::norm1:
      return rms_norm_forward(c.ctx, c.rows, c.h, c.x_in(), t.weight, c.saved(s.norm1),
                              c.saved_fp32(s.norm1_rstd));
    case Role::q: return product_forward(c, t, s.norm1, c.h, s.q);
    case Role::k: return product_forward(c, t, s.norm1, c.dims.kv_dim(), s.k);
    case Role::v: return product_forward(c, t, s.norm1, c.dims.kv_dim(), s.v);
    case Role::attn_proj: return llama_attn_proj_forward(c, t);
    case Role::norm2:
      return rms_norm_forward(c.ctx, c.rows, c.h, c.saved(s.x_mid), t.weight, c.saved(s.norm2),
                              c.saved_fp32(s.norm2_rstd));
    case Role::gate: return product_forward(c, t, s.norm2, c.dims.ffn, s.gate);
    case Role::up: return product_forward(c, t, s.norm2, c.dims.ffn, s.up);
    case Role::mlp_proj: return down_forward(c, t);
    case Role::final_norm:
      return rms_norm_forward(c.ctx, c.rows, c.h, c.x_in(), t.weight, c.saved(hs.norm),
                              c.saved_fp32(hs.norm_rstd));
    default: unknown_role(c.dims.family, role);
  }
}

void llama_backward(const ModuleCall& c, Role role, Tensors t, Gradients g) {
  const LlamaBlockSaved s = llama_block_saved(c.dims);
  const LlamaBlockBackwardWorkspace w = llama_block_backward_workspace(c.dims, 0);
  const std::int64_t kv = c.dims.kv_dim();
  switch (role) {
    case Role::final_norm: return llama_final_norm_backward(c, t, g);
    case Role::mlp_proj: return down_backward(c, t, g);
    case Role::up: return product_backward(c, t, g, w.dup, c.dims.ffn, s.norm2, true);
    case Role::gate: return product_backward(c, t, g, w.dgate, c.dims.ffn, s.norm2, false);
    case Role::norm2:
      return block_norm_backward(c, t, g, c.saved(s.x_mid), c.saved_fp32(s.norm2_rstd));
    case Role::attn_proj: return llama_attn_proj_backward(c, t, g);
    case Role::v: return product_backward(c, t, g, w.dv, kv, s.norm1, true);
    case Role::k: return product_backward(c, t, g, w.dk, kv, s.norm1, false);
    case Role::q: return product_backward(c, t, g, w.dq, c.h, s.norm1, false);
    case Role::norm1: return block_norm_backward(c, t, g, c.x_in(), c.saved_fp32(s.norm1_rstd));
    default: unknown_role(c.dims.family, role);
  }
}

}  // namespace shardmark
