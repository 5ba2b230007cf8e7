// SPDX-License-Identifier: Apache-2.0
// Where the modules of a block find their inputs and leave their outputs, forward and backward.
#pragma once

#include <core/nn/layers/heads.hpp>
#include <core/nn/models/latent_call.hpp>
#include <core/nn/models/module_norms.hpp>
#include <core/plan/deck/decoder_modules.hpp>

namespace shardmark {

/// One call of a module in a block, and the tensors of the block.
class BlockTensors : public ModuleCall {
 protected:
  explicit BlockTensors(const ModuleCall& call) : ModuleCall(call), s_(block_saved(dims)) {}

  Norm norm(NormSaved at) const { return norm_of(*this, rows, h, at); }
  Norm head_norm(NormSaved at, std::int64_t heads, std::int64_t channels) const {
    const bool each = decoder.norm.qk == QkNorm::head;
    return norm_of(*this, each ? rows * heads : rows, each ? dims.head_dim() : channels, at);
  }
  Norm q_norm() const { return head_norm(s_.q_norm, dims.heads, dims.q_dim()); }
  Norm k_norm() const { return head_norm(s_.k_norm, dims.kv_heads, dims.kv_dim()); }
  LatentCall latent() const { return {*this, s_}; }
  bool two_norms() const { return decoder.block.kind == BlockKind::parallel_two_norms; }
  float factor() const { return static_cast<float>(decoder.block.residual_factor); }

  ConstStored attention_input() const {
    return decoder.norms_before() ? saved(s_.norm1_out) : x_in();
  }
  ConstStored norm2_input() const { return decoder.parallel() ? x_in() : saved(s_.x_mid); }
  ConstStored mlp_input() const {
    return decoder.norms_before() ? saved(s_.norm2_out) : saved(s_.x_mid);
  }
  Scratch forward_scratch() const {
    return {*this, "block", block_forward_workspace(dims, 0).gemm};
  }
  Linear linear(const Scratch& scratch) const { return scratch.linear(decoder.in_out); }
  bool grouped() const { return decoder.attention.qkv == QkvLayout::grouped; }

  // A product's input in forward, and where its output goes, to which an adapter may add. The MLP's
  // last product finds its input in the workspace.
  ConstStored input_of(Role role) const {
    switch (role) {
      case Role::fc:
      case Role::gate:
      case Role::up: return mlp_input();
      case Role::q_b: return saved(s_.latent.q_a_out);
      case Role::kv_b: return saved(s_.latent.kv_a_out);
      case Role::attn_proj: return saved(s_.attention);
      case Role::mlp_proj: return forward_scratch()[block_forward_workspace(dims, 0).act];
      default: return attention_input();
    }
  }
  Stored output_of(Role role, const Scratch& scratch) const {
    switch (role) {
      case Role::qkv:
        return grouped() ? scratch[block_forward_workspace(dims, 0).grouped] : saved(s_.q);
      case Role::q_a: return saved(s_.latent.q_a);
      case Role::kv_a: return saved(s_.latent.kv_a);
      case Role::kv_b: return scratch[block_forward_workspace(dims, 0).grouped];
      case Role::q_b:
      case Role::q: return saved(s_.q_raw);
      case Role::k: return saved(s_.k_raw);
      case Role::v: return saved(s_.v);
      case Role::up: return saved(s_.up);
      case Role::attn_proj:
      case Role::mlp_proj: return sublayer_output(role);
      default: return saved(s_.gate);
    }
  }
  Stored sublayer_output(Role last) const {
    if (last == Role::attn_proj) return saved(decoder.norms_after() ? s_.attn_out : s_.x_mid);
    return decoder.norms_after() ? saved(s_.mlp_out) : x_out();
  }
  // The same in backward: the gradients of a product's output and of its input.
  ConstStored output_gradient_of(Role role, const Scratch& scratch,
                                 const BlockBackwardWorkspace& w) const {
    switch (role) {
      case Role::qkv:
        if (!grouped()) return scratch[w.dq];
        arrange_heads(ctx, dims, scratch[w.dq], scratch[w.grouped], false);
        return scratch[w.grouped];
      case Role::q_a: return scratch[w.latent.dq_a];
      case Role::kv_a: return scratch[w.latent.dkv_a];
      case Role::kv_b: latent().collect(scratch, w); return scratch[w.latent.dkv_b];
      case Role::q_b:
      case Role::q: return scratch[w.dq];
      case Role::k: return scratch[w.dk];
      case Role::v: return scratch[w.dv];
      case Role::up: return scratch[w.dup];
      case Role::attn_proj:
      case Role::mlp_proj: return output_gradient(scratch, w);
      default: return scratch[w.dgate];
    }
  }
  Stored input_gradient_of(Role role, const Scratch& scratch,
                           const BlockBackwardWorkspace& w) const {
    switch (role) {
      // The gradient of values without the zeros that attention needs after them has the place of
      // one that is made later.
      case Role::attn_proj: return scratch[decoder.latent() ? w.latent.dkv_b : w.dattention];
      case Role::q_b: return scratch[w.latent.dq_a_out];
      case Role::kv_b: return scratch[w.latent.dkv_a_out];
      case Role::mlp_proj: return decoder.mlp.joined ? scratch[w.act] : scratch[w.dgate];
      case Role::fc:
      case Role::gate:
      case Role::up: return norm_gradient(scratch, w.dnorm2);
      default: return norm_gradient(scratch, w.dnorm1);
    }
  }

  Stored norm_gradient(const Scratch& scratch, std::int64_t offset) const {
    return {dnorm_type(dims), scratch[offset].data};
  }
  // The gradient of what is added to the residual stream: dx, or its product with the factor.
  Stored sublayer_gradient(const Scratch& scratch, const BlockBackwardWorkspace& w) const {
    if (decoder.block.residual_factor == 1) return dx();
    scaled_copy(ctx, rows * h, dx(), factor(), scratch[w.dsub]);
    return scratch[w.dsub];
  }
  // The gradient of a sublayer's output: the norm after it has left it in the workspace.
  Stored output_gradient(const Scratch& scratch, const BlockBackwardWorkspace& w) const {
    return decoder.norms_after() ? scratch[w.dsub] : sublayer_gradient(scratch, w);
  }

  const BlockSaved s_;
};

}  // namespace shardmark
