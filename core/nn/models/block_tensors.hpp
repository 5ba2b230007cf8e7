// SPDX-License-Identifier: Apache-2.0
// What forward and backward of a block's modules share: where they find what the block saves.
#pragma once

#include <core/nn/models/attention_call.hpp>
#include <core/nn/models/mixture.hpp>

namespace shardmark {

inline constexpr RoleSet block_norms{Role::norm1,  Role::norm2,  Role::post_norm1, Role::post_norm2,
                                     Role::q_norm, Role::k_norm, Role::q_a_norm,   Role::kv_a_norm};

/// One call of a module in a block.
class BlockTensors : public ModuleCall {
 protected:
  explicit BlockTensors(const ModuleCall& call) : ModuleCall(call), s_(block_saved(dims)) {}

  struct NormCall {
    Norm norm;
    ConstStored x;
    Stored y;
  };
  NormCall norm_call(Role role) const {
    const LatentSpec& latent = decoder.attention.latent;
    const LatentSaved& l = s_.latent;
    switch (role) {
      case Role::norm1: return {norm(s_.norm1), x_in(), saved(s_.norm1_out)};
      case Role::norm2:
        return {norm(s_.norm2), decoder.parallel() ? x_in() : saved(s_.x_mid), saved(s_.norm2_out)};
      case Role::post_norm1: return {norm(s_.post_norm1), saved(s_.attn_out), saved(s_.x_mid)};
      case Role::post_norm2: return {norm(s_.post_norm2), saved(s_.mlp_out), x_out()};
      case Role::q_norm: return {head_norm(s_.q_norm, dims.heads), saved(s_.q_raw), saved(s_.q)};
      case Role::k_norm: return {head_norm(s_.k_norm, dims.kv_heads), saved(s_.k_raw), saved(s_.k)};
      case Role::q_a_norm:
        return {latent_norm(l.q_norm, latent.q_rank), saved(l.q_a), saved(l.q_a_out)};
      default:  // that of keys and values is over a part of what kv_a makes
        return {latent_norm(l.kv_norm, latent.kv_rank, latent.kv_rank + latent.rotary_dim),
                saved(l.kv_a), saved(l.kv_a_out)};
    }
  }

  AttentionCall attention() const { return {*this, s_}; }
  // Whether attention is between two exchanges of ranks that divide samples, in calls of its own.
  bool exchanges() const { return dims.sequence_part.cuts(); }
  bool grouped() const { return decoder.attention.qkv == QkvLayout::grouped; }
  float factor() const { return static_cast<float>(decoder.block.residual_factor); }
  Linear linear(const Scratch& scratch) const { return scratch.linear(decoder.in_out); }

  ConstStored mlp_input() const { return saved(decoder.norms_before() ? s_.norm2_out : s_.x_mid); }
  // The input of a projection.
  ConstStored input_of(Role role) const {
    switch (role) {
      case Role::fc:
      case Role::gate:
      case Role::up: return mlp_input();
      case Role::q_b: return saved(s_.latent.q_a_out);
      case Role::kv_b: return saved(s_.latent.kv_a_out);
      case Role::attn_proj: return saved(s_.attention);
      default: return decoder.norms_before() ? saved(s_.norm1_out) : x_in();
    }
  }
  void activate(Stored act) const {
    const Activation kind = decoder.mlp.activation;
    if (decoder.mlp.gated)
      gated_forward(ctx, kind, gated_rows(), saved(s_.gate), saved(s_.up), act);
    else
      activation_forward(ctx, kind, rows * dims.ffn, saved(s_.gate), act);
  }
  // The activation of a MLP with its gate, if it has one.
  GatedRows gated_rows() const { return {rows, dims.ffn, gate_stride(dims)}; }
  Mixture mixture() const { return {*this, s_.mixture, mlp_input()}; }

  // The factors of the adapter at hand beside a product y = W x: y += scaling B (A x), after Hu et
  // al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021), in the order in which PEFT
  // calls them. Forward keeps scaling A x.
  std::int64_t rank() const { return dims.low_rank[b.adapts].rank; }
  Stored low_rank() const { return saved(s_.low_rank[b.adapts]); }
  void scale(Stored low_rank) const {
    const auto scaling = static_cast<float>(dims.low_rank[b.adapts].scaling);
    scaled_copy(ctx, rows * rank(), low_rank, scaling, low_rank);
  }

  const BlockSaved s_;

 private:
  Norm head_norm(NormSaved at, std::int64_t heads) const {
    const bool each = decoder.norm.qk == QkNorm::head;
    return norm(at, each ? rows * heads : rows, dims.head_dim() * (each ? 1 : heads));
  }
  Norm latent_norm(NormSaved at, std::int64_t columns, std::int64_t x_stride = 0) const {
    Norm made = norm(at, rows, columns);
    if (decoder.attention.latent.eps > 0) made.spec.eps = decoder.attention.latent.eps;
    made.x_stride = x_stride;
    return made;
  }
};

}  // namespace shardmark
