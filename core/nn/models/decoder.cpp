// SPDX-License-Identifier: Apache-2.0
#include <core/nn/layers/embedding.hpp>
#include <core/nn/models/attention_call.hpp>
#include <core/nn/models/block.hpp>
#include <core/nn/models/decoder.hpp>
#include <core/nn/models/module_norms.hpp>
#include <core/plan/model/block_sizes.hpp>

namespace shardmark {
namespace {

// The norms that do not belong to a block.
Norm final_norm(const ModuleCall& c) {
  const HeadSaved s = head_saved(c.dims);
  return norm_of(c, c.rows, c.h, {s.norm_mean, s.norm_rstd});
}
Norm embedding_norm(const ModuleCall& c) {
  const EmbeddingSaved s = embedding_saved(c.dims);
  return norm_of(c, c.rows, c.h, {s.norm_mean, s.norm_rstd});
}

}  // namespace

void decoder_forward(const ModuleCall& c, Role role, Tensors t) {
  switch (role) {
    case Role::position_embedding:
      return position_embedding_forward(c.ctx, c.dims, t.weight, c.x_out());
    case Role::embedding_norm:
      return norm_forward(embedding_norm(c), t, c.saved(embedding_saved(c.dims).embedding),
                          c.x_out());
    case Role::final_norm:
      return norm_forward(final_norm(c), t, c.x_in(), c.saved(head_saved(c.dims).norm));
    default: return block_forward(c, role, t);
  }
}

void decoder_forward_end(const ModuleCall& c, Role role) {
  block_forward_end(c, role);
}
void decoder_backward_end(const ModuleCall& c, Role role) {
  block_backward_end(c, role);
}

void decoder_forward_begin(const ModuleCall& c, Role role) {
  block_forward_begin(c, role);
}
void decoder_backward_begin(const ModuleCall& c, Role role) {
  block_backward_begin(c, role);
}

void decoder_attention(const ModuleCall& c) {
  AttentionCall(c, block_saved(c.dims)).forward();
}
void decoder_attention_backward(const ModuleCall& c) {
  AttentionCall(c, block_saved(c.dims)).backward();
}

void decoder_backward(const ModuleCall& c, Role role, Tensors t, Gradients g) {
  switch (role) {
    case Role::position_embedding:
      return position_embedding_backward(c.ctx, c.dims, c.dx(), g.weight, g.accumulate);
    case Role::embedding_norm:
      return norm_backward(embedding_norm(c), t, g, c.saved(embedding_saved(c.dims).embedding),
                           c.dx(), c.dx(), false, {});
    case Role::final_norm: {
      const HeadBackwardWorkspace w = head_backward_workspace(c.dims, 0);
      const Scratch scratch(c, "final_norm", w.gemm);
      return norm_backward(final_norm(c), t, g, c.x_in(), scratch.fp32(w.dnorm), c.dx(), false,
                           scratch.gemm());
    }
    default: return block_backward(c, role, t, g);
  }
}

}  // namespace shardmark
