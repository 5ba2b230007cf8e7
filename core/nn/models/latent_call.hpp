// SPDX-License-Identifier: Apache-2.0
// Latent attention: what stands between the products of its latents and attention itself.
#pragma once

#include <core/nn/layers/heads.hpp>
#include <core/nn/layers/norm.hpp>
#include <core/nn/layers/rotary.hpp>
#include <core/nn/models/module_call.hpp>
#include <core/plan/model/block_sizes.hpp>

namespace shardmark {

/// One call of a module of latent attention.
class LatentCall {
 public:
  LatentCall(const ModuleCall& call, const BlockSaved& saved)
      : c_(call), spec_(call.decoder.attention.latent), s_(saved) {}

  /// The norms of the latents. That of keys and values is a part of what kv_a makes.
  Norm q_norm() const { return norm(spec_.q_rank, s_.latent.q_rstd, 0); }
  Norm kv_norm() const { return norm(spec_.kv_rank, s_.latent.kv_rstd, kv_a_width()); }

  /// Rotates the channels of keys that all heads share, and puts keys and values in their places.
  /// kv_b has made `made`.
  void spread(ConstStored made) const;
  /// The same backward: from dk and dv writes the gradients of what kv_b has made, and of the
  /// shared channels in that of what kv_a has made.
  void collect(const Scratch& scratch, const BlockBackwardWorkspace& w) const;

  /// The rotated channels of queries, or of their gradient.
  RotatedHeads rotated(Stored q) const {
    return {q.at(spec_.plain_dim), c_.dims.q_dim(), c_.dims.heads, spec_.qk_dim()};
  }
  /// Attention's output without the zeros that follow its values.
  void take_values() const {
    resize_heads(c_.ctx, c_.dims, c_.saved(s_.context), spec_.qk_dim(), c_.saved(s_.attention),
                 spec_.value_dim);
  }
  /// The same backward: attention needs zeros there.
  void pad_values(ConstStored dvalues, Stored dcontext) const {
    resize_heads(c_.ctx, c_.dims, dvalues, spec_.value_dim, dcontext, spec_.qk_dim());
  }

 private:
  std::int64_t kv_a_width() const { return spec_.kv_rank + spec_.rotary_dim; }
  Norm norm(std::int64_t columns, std::int64_t rstd, std::int64_t x_stride) const;
  RotatedHeads shared_keys(Stored kv_a) const {
    return {kv_a.at(spec_.kv_rank), kv_a_width(), 1, spec_.rotary_dim};
  }

  const ModuleCall& c_;
  const LatentSpec& spec_;
  const BlockSaved& s_;
};

}  // namespace shardmark
