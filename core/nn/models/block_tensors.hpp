// SPDX-License-Identifier: Apache-2.0
// What forward and backward of a block's modules share.
#pragma once

#include <core/nn/models/attention_call.hpp>
#include <core/nn/models/mixture.hpp>

namespace shardmark {

inline constexpr RoleSet block_norms{Role::norm1,  Role::norm2,  Role::post_norm1, Role::post_norm2,
                                     Role::q_norm, Role::k_norm, Role::q_a_norm,   Role::kv_a_norm};

/// One call of a module in a block.
class BlockTensors : public BlockCall {
 protected:
  using BlockCall::BlockCall;

  // What the module at hand or another one reads and makes.
  DataFlow flow(Role role) const { return flow_of(decoder, role); }
  Stored input_of(Role role) const { return value(flow(role).reads); }

  Norm norm_of(Role role) const {
    const std::int64_t columns = norm_columns(dims, role);
    Norm made = norm(s.norms[role], rows * (row_elems(dims, flow(role).makes) / columns), columns);
    const bool of_keys = role == Role::kv_a_norm;  // over a part of what kv_a makes
    if (of_keys) made.x_stride = row_elems(dims, Value::kv_a);
    const double own_eps = decoder.attention.latent.eps;
    if (own_eps > 0 && (of_keys || role == Role::q_a_norm)) made.spec.eps = own_eps;
    return made;
  }

  AttentionCall attention() const { return AttentionCall(*this); }
  // Whether attention is between two exchanges of ranks that divide samples, in calls of its own.
  bool exchanges() const { return dims.sequence_part.cuts(); }
  bool grouped() const { return decoder.attention.qkv == QkvLayout::grouped; }
  float factor() const { return static_cast<float>(decoder.block.residual_factor); }
  Linear linear() const { return scratch().linear(decoder.in_out); }

  void activate() const {
    const Activation kind = decoder.mlp.activation;
    if (decoder.mlp.gated)
      gated_forward(ctx, kind, gated_rows(), value(Value::gate), value(Value::up),
                    value(Value::act));
    else
      activation_forward(ctx, kind, rows * dims.ffn, value(Value::gate), value(Value::act));
  }
  // The activation of a MLP with its gate, if it has one.
  GatedRows gated_rows() const { return {rows, dims.ffn, row_elems(dims, Value::gate)}; }
  Mixture mixture() const { return {*this, input_of(Role::router)}; }

  // The factors of the adapter at hand beside a product y = W x: y += scaling B (A x), after Hu et
  // al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021), in the order in which PEFT
  // calls them. Forward keeps scaling A x.
  std::int64_t rank() const { return dims.low_rank[b.adapts].rank; }
  Stored low_rank() const { return saved(s.low_rank[b.adapts]); }
  void scale(Stored low_rank) const {
    const auto scaling = static_cast<float>(dims.low_rank[b.adapts].scaling);
    scaled_copy(ctx, rows * rank(), low_rank, scaling, low_rank);
  }
};

}  // namespace shardmark
